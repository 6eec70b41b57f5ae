#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Help, man page and completion know the same commands and options."""
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import main, skip  # noqa: E402
from cli_case import PROGRAM, ROOT, TIMEOUT, Case, commands, environment  # noqa: E402


def own_options(command):
    """Long and short names, without those that the man page describes once for all commands."""
    return {(option["name"], option["letter"]) for option in command["options"]
            if option["name"] not in ("config", "set", "verbose", "help")}


class Documents(Case):
    def man_sections(self):
        text = (ROOT / "docs" / "man" / "snipara-sandbox.1").read_text().replace("\\-", "-").replace("\\fR", "")
        found = re.split(r'(?m)^\.S[SH] ', text)
        return {section.split("\n", 1)[0].strip('"'): section for section in found}

    @staticmethod
    def man_options(section):
        """Options that a paragraph begins with: `.BR -c ", " --code ...` or `.B --json`."""
        found = set()
        for line in re.findall(r"(?m)^\.T[PQ]\n\.BR? (-.*)$", section):
            long_name = re.search(r"--([a-z-]+)", line)
            letter = re.match(r"-([a-zA-Z])\b", line)
            if long_name:
                found.add((long_name.group(1), letter.group(1) if letter else None))
        return found

    def test_man_page(self):
        sections = self.man_sections()
        titles = {title: text for title, text in sections.items() if title.startswith("snipara-sandbox ")}
        self.assertEqual(len(titles), len(commands()))
        for command in commands():
            pattern = rf"snipara-sandbox {command['name']}( \[|$)"
            title = next((title for title in titles if re.match(pattern, title)), None)
            self.assertIsNotNone(title, command["name"])
            self.assertEqual(self.man_options(titles[title]), own_options(command), command["name"])
            if command["arguments"]:
                self.assertTrue(title.endswith(command["arguments"]), title)
        shared = self.man_options(sections["COMMON OPTIONS"])
        self.assertEqual(shared, {("config", None), ("set", None), ("verbose", "v")})
        for command in commands():
            if any(option["name"] == "config" for option in command["options"]):
                self.assertRegex(sections["COMMON OPTIONS"], rf'[" ]{command["name"]}[" )\n]')

    def test_man_page_is_well_formed(self):
        if not shutil.which("groff"):
            skip("groff is not installed")
        done = subprocess.run(["groff", "-man", "-ww", "-z", "-Tutf8", "-K", "utf8",
                               str(ROOT / "docs" / "man" / "snipara-sandbox.1")], capture_output=True, text=True,
                              check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_exit_codes_are_documented(self):
        status = self.man_sections()["EXIT STATUS"]
        for code in (0, 1, 2, 3, 4, 5, 6, 129, 130, 141, 143):
            self.assertRegex(status, rf"(?m)^\.BR? .*\b{code}\b")

    def bash_words(self, *line):
        script = ('. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _snipara_sandbox; '
                  'printf "%s\\n" "${COMPREPLY[@]}"')
        path = str(ROOT / "packaging/completion/snipara-sandbox.bash")
        done = subprocess.run(["bash", "-c", script, "bash", path, PROGRAM, *line], capture_output=True, text=True,
                              cwd=self.project, env=environment(self.home), timeout=TIMEOUT, check=True)
        return set(done.stdout.split())

    def test_bash_completion(self):
        if not shutil.which("bash"):
            skip("bash is not installed")
        first = {command["name"].split()[0] for command in commands()}
        self.assertEqual(self.bash_words(""), first | {"--help", "--version"})
        self.assertEqual(self.bash_words("help", ""), first)
        for group in ("config", "plugins", "image", "sessions"):
            names = [command["name"].split() for command in commands()]
            self.assertEqual(self.bash_words(group, ""), {name[1] for name in names if name[0] == group})
        for command in commands():
            self.assertEqual(self.bash_words(*command["name"].split(), "--"),
                             {"--" + option["name"] for option in command["options"]}, command["name"])
        self.assertEqual(self.bash_words("exec", "--profile", ""), {"quick", "default", "analysis", "extended"})
        self.assertIn("max_sessions=", self.bash_words("doctor", "--set", "max_se"))

    def test_fish_completion(self):
        if not shutil.which("fish"):
            skip("fish is not installed")
        path = ROOT / "packaging/completion/snipara-sandbox.fish"
        for command in commands():
            line = f"snipara-sandbox {command['name']} --"
            done = subprocess.run(["fish", "--no-config", "-c", f"source '{path}'; complete -C '{line}'"],
                                  capture_output=True, text=True, cwd=self.project, env=environment(self.home),
                                  timeout=TIMEOUT, check=True)
            words = {text.split("\t")[0] for text in done.stdout.splitlines()}
            self.assertEqual(words, {"--" + option["name"] for option in command["options"]}, command["name"])

    def test_zsh_completion(self):
        text = (ROOT / "packaging/completion/_snipara-sandbox").read_text()
        for command in commands():
            if len(command["name"].split()) == 1:
                self.assertIn(f"'{command['name']}:{command['summary']}'", text)
            for option in command["options"]:
                self.assertRegex(text, rf"--{option['name']}\b")
                if option["letter"]:
                    self.assertRegex(text, rf"-{option['letter']}\b")
        known = {option["name"] for command in commands() for option in command["options"]} | {"version"}
        self.assertEqual(set(re.findall(r"[^a-z-]--([a-z-]+)", text)) - known, set())
        if shutil.which("zsh"):
            subprocess.run(["zsh", "-n", str(ROOT / "packaging/completion/_snipara-sandbox")], check=True)


if __name__ == "__main__":
    main()
