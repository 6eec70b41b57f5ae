#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`config show` and `init` from outside: layers and origins, masking, files that are written and merged."""
import json
import os
import pathlib
import re
import shutil
import stat
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import main, skip  # noqa: E402
from cli_case import PROGRAM, Case, environment  # noqa: E402


class Config(Case):
    def origins(self, *args, **kwargs):
        """{name: (value as shown, origin)}"""
        found = {}
        for line in self.ok("config", "show", "--origin", *args, **kwargs).stdout.splitlines():
            origin, _, assignment = line.partition("\t")
            name, _, value = assignment.partition("=")
            found[name] = (value, origin)
        return found

    def test_defaults(self):
        value = json.loads(self.ok("config", "show", "--json").stdout)
        self.assertEqual((value["environment"], value["max_depth"], value["token_budget"]), ("local", 4, 8000))
        self.assertEqual(set(value["origins"].values()), {"default"})
        self.assertEqual(value["files"], [])
        self.assertFalse(value["config_file_exists"])
        self.assertIn("none: built-in defaults", self.ok("config", "show").stdout)

    def test_members_of_the_python_program(self):
        value = json.loads(self.ok("config", "show", "--json").stdout)
        for name in ("config_file", "config_file_exists", "project_env_file", "project_env_file_exists", "backend",
                     "model", "temperature", "environment", "trust_level", "docker_image", "docker_memory", "max_depth",
                     "max_subcalls", "token_budget", "tool_budget", "timeout_seconds", "parallel_tools", "max_parallel",
                     "sub_calls_enabled", "sub_calls_max_per_turn", "allowed_paths", "log_dir", "verbose", "log_level",
                     "api_key_set", "snipara_api_key_set", "snipara_project_slug", "snipara_base_url",
                     "memory_enabled"):
            self.assertIn(name, value)

    def test_layers_and_their_origins(self):
        path = self.write("snipara-sandbox.cfg", 'model = "file";\nmax_depth = 2;\n')
        env_path = self.write(".env", "SNIPARA_SANDBOX_MAX_DEPTH=3\nSNIPARA_PROJECT_SLUG=slug\n")
        found = self.origins()
        self.assertEqual(found["model"], ('"file"', f"{path}:1"))
        self.assertEqual(found["max_depth"][0], "3")
        self.assertIn(".env:1", found["max_depth"][1])
        self.assertIn(".env:2", found["snipara_project_slug"][1])
        found = self.origins(env={"SNIPARA_SANDBOX_MODEL": "variable", "RLM_MAX_DEPTH": "1"})
        self.assertEqual(found["model"][0], '"variable"')
        self.assertIn("SNIPARA_SANDBOX_MODEL", found["model"][1])
        self.assertEqual(found["max_depth"][0], "1")
        found = self.origins("--set", "model=flag", env={"SNIPARA_SANDBOX_MODEL": "variable"})
        self.assertEqual(found["model"], ('"flag"', "flag"))
        value = json.loads(self.ok("config", "show", "--json").stdout)
        self.assertEqual(value["config_file"], str(path))
        self.assertEqual(value["project_env_file"], str(env_path))
        table = self.ok("config", "show").stdout
        self.assertRegex(table, rf'(?m)^  model +"file" +{re.escape(str(path))}:1$')
        self.assertIn(str(env_path), table)

    def test_other_file(self):
        path = self.write("other.cfg", 'model = "other";\n')
        self.write("snipara-sandbox.cfg", 'model = "project";\n')
        for args, env in ((["--config", "other.cfg"], {}), ([], {"SNIPARA_SANDBOX_CONFIG": "other.cfg"})):
            value = json.loads(self.ok("config", "show", "--json", *args, env=env).stdout)
            self.assertEqual((value["model"], value["files"]), ("other", [str(path)]))

    def test_secrets_are_masked(self):
        secret = "snp-0123456789abcdef"
        env = {"SNIPARA_API_KEY": secret, "SNIPARA_SANDBOX_LLM_API_KEY": secret}
        for args in ([], ["--json"], ["--origin"]):
            self.assertNotIn(secret, self.ok("config", "show", *args, env=env).stdout)
        value = json.loads(self.ok("config", "show", "--json", env=env).stdout)
        self.assertTrue(value["snipara_api_key_set"])
        self.assertNotIn("snipara_api_key", value)
        self.assertIn("SNIPARA_API_KEY", value["origins"]["snipara_api_key"])
        self.write("snipara-sandbox.cfg", f'snipara_api_key = "{secret}";\n')
        os.chmod(self.project / "snipara-sandbox.cfg", 0o600)
        self.assertNotIn(secret, self.ok("config", "show").stdout)

    def test_plugin_options(self):
        value = json.loads(self.ok("config", "show", "--json", "--set", "local.pool=7").stdout)
        entry = next(entry for entry in value["plugins"] if entry["name"] == "local")
        self.assertEqual(entry["plugin"], "backend-local")
        if entry["problem"]:
            skip(entry["problem"])
        self.assertEqual((entry["options"]["pool"], entry["origins"]["pool"]), (7, "flag"))
        self.assertEqual(self.origins("--set", "local.pool=7")["local.pool"], ("7", "flag"))
        self.assertIn("SNIPARA_SANDBOX_LOCAL_POOL",
                      self.origins(env={"SNIPARA_SANDBOX_LOCAL_POOL": "6"})["local.pool"][1])


class Init(Case):
    def test_writes_a_valid_configuration(self):
        done = self.ok("init")
        self.assertIn("wrote snipara-sandbox.cfg", done.stdout)
        self.assertIn("wrote .env.example", done.stdout)
        self.assertFalse((self.project / ".mcp.json").exists())
        value = json.loads(self.ok("config", "show", "--json").stdout)
        self.assertEqual(value["config_file"], str(self.project / "snipara-sandbox.cfg"))

    def test_what_is_commented_out_is_valid_and_the_default(self):
        defaults = json.loads(self.ok("config", "show", "--json").stdout)
        self.ok("init")
        text = (self.project / "snipara-sandbox.cfg").read_text()
        settings = re.sub(r"(?m)^# (?=\w+ = |plugins|  \{|\);)", "", text)
        self.assertGreater(settings.count("\n"), 20)
        self.assertNotEqual(settings, text)
        self.write("snipara-sandbox.cfg", settings)
        value = json.loads(self.ok("config", "show", "--json").stdout)
        for name in re.findall(r"(?m)^(\w+) = ", settings):
            if name not in ("plugins", "snipara_project_slug"):
                self.assertEqual(value[name], defaults[name], name)
                self.assertNotEqual(value["origins"][name], "default", name)

    def test_keeps_what_is_there(self):
        self.write("snipara-sandbox.cfg", "# mine\n")
        done = self.fails(1, "init", says=("there already", "--force"))
        self.assertEqual((self.project / "snipara-sandbox.cfg").read_text(), "# mine\n")
        self.assertIn("kept snipara-sandbox.cfg", self.ok("init", "--mcp").stdout)
        self.assertEqual((self.project / "snipara-sandbox.cfg").read_text(), "# mine\n")
        self.ok("init", "--force")
        self.assertIn("environment", (self.project / "snipara-sandbox.cfg").read_text())
        self.assertNotIn("wrote", done.stdout)

    def test_env_example_is_never_replaced(self):
        self.write(".env.example", "mine")
        self.ok("init", "--force")
        self.assertEqual((self.project / ".env.example").read_text(), "mine")

    def test_without_snipara(self):
        done = self.ok("init", "--no-snipara")
        self.assertNotIn("snipara.com", done.stdout)
        self.assertNotIn("snipara_project_slug", (self.project / "snipara-sandbox.cfg").read_text())
        self.assertNotIn("SNIPARA_API_KEY", (self.project / ".env.example").read_text())
        self.ok("config", "show")

    def test_other_directory(self):
        (self.project / "sub").mkdir()
        self.assertIn("wrote sub/snipara-sandbox.cfg", self.ok("init", "sub").stdout)
        self.assertTrue((self.project / "sub" / "snipara-sandbox.cfg").exists())
        self.fails(2, "init", "missing", says="missing")

    def test_new_mcp_file(self):
        self.ok("init", "--mcp")
        value = json.loads((self.project / ".mcp.json").read_text())
        entry = value["mcpServers"]["snipara-sandbox"]
        self.assertEqual(entry["args"], ["mcp-serve"])
        program = entry["command"] if "/" in entry["command"] else shutil.which(entry["command"])
        self.assertTrue(os.path.samefile(program, PROGRAM))
        if "SNIPARA_SANDBOX_BUILD_ROOT" in os.environ:
            self.assertIn("SNIPARA_SANDBOX_BUILD_ROOT", entry["env"])
        self.assertFalse((self.project / ".mcp.json.bak").exists())

    def test_merges_with_an_existing_mcp_file(self):
        before = ('{"other": [1, 2.5, "ä"], '
                  '"mcpServers": {"z": {"command": "z", "env": {"KEY": "secret"}}, "a": {"url": "u"}}}')
        self.write(".mcp.json", before)
        os.chmod(self.project / ".mcp.json", 0o600)
        self.ok("init", "--mcp")
        after = json.loads((self.project / ".mcp.json").read_text())
        self.assertEqual(list(after["mcpServers"]), ["z", "a", "snipara-sandbox"])
        ours = after["mcpServers"].pop("snipara-sandbox")
        self.assertEqual(after, json.loads(before))
        self.assertEqual((self.project / ".mcp.json.bak").read_text(), before)
        for name in (".mcp.json", ".mcp.json.bak"):
            self.assertEqual(stat.S_IMODE((self.project / name).stat().st_mode), 0o600)
        text = (self.project / ".mcp.json").read_text()
        self.assertIn("kept (the entry is there) .mcp.json", self.ok("init", "--mcp").stdout)
        self.assertEqual((self.project / ".mcp.json").read_text(), text)
        self.assertEqual((self.project / ".mcp.json.bak").read_text(), before)
        after["mcpServers"]["snipara-sandbox"] = {"command": "mine"}
        self.write(".mcp.json", json.dumps(after))
        self.ok("init", "--mcp")
        self.assertEqual(json.loads((self.project / ".mcp.json").read_text())["mcpServers"]["snipara-sandbox"],
                         {"command": "mine"})
        self.ok("init", "--mcp", "--force")
        self.assertEqual(json.loads((self.project / ".mcp.json").read_text())["mcpServers"]["snipara-sandbox"], ours)

    def test_bad_mcp_files_stay_as_they_are(self):
        for text in ("", "{", "[]", '{"mcpServers": []}', '{"a": 1, "a": 2}', "[" * 1000):
            self.write(".mcp.json", text)
            done = self.run_cli("init", "--mcp", "--force")
            self.assertEqual(done.returncode, 1, text)
            self.assertIn(".mcp.json", done.stderr)
            self.assertEqual((self.project / ".mcp.json").read_text(), text)

    def test_links_are_refused(self):
        target = self.write("target", "{}")
        for name in ("snipara-sandbox.cfg", ".env.example", ".mcp.json", ".mcp.json.bak"):
            with self.subTest(name):
                (self.project / name).unlink(missing_ok=True)
                if name == ".mcp.json.bak":
                    self.write(".mcp.json", "{}")
                (self.project / name).symlink_to(target)
                done = self.run_cli("init", "--mcp", "--force")
                self.assertEqual(done.returncode, 1)
                self.assertIn("symbolic link", done.stderr)
                self.assertEqual(target.read_text(), "{}")
                (self.project / name).unlink()

    # ---- other clients ----

    def entry(self, client, *args, path, servers):
        done = self.ok("init", "--client", client, *args)
        self.assertIn(f"wrote {path}", done.stdout)
        value = json.loads(pathlib.Path(self.project, path).read_text())
        self.assertEqual(list(value), [servers])
        return value[servers]["snipara-sandbox"]

    def test_clients(self):
        for client, path, servers in (("claude-code", ".mcp.json", "mcpServers"),
                                      ("cursor", ".cursor/mcp.json", "mcpServers"),
                                      ("vscode", ".vscode/mcp.json", "servers")):
            with self.subTest(client):
                entry = self.entry(client, path=path, servers=servers)
                self.assertEqual(entry["args"], ["mcp-serve"])
                self.assertEqual(entry.get("type"), "stdio" if client == "vscode" else None)
                self.assertTrue((self.project / "snipara-sandbox.cfg").exists())

    def test_claude_desktop_is_the_users(self):
        path = pathlib.Path(self.home, "config/Claude/claude_desktop_config.json")
        entry = self.entry("claude-desktop", path=str(path), servers="mcpServers")
        self.assertTrue(os.path.isabs(entry["command"]), "no shell's PATH is there")
        self.assertTrue(os.path.samefile(entry["command"], PROGRAM))
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        self.assertEqual({item.name for item in self.project.iterdir()}, {".git"})

    def test_entries_with_a_url(self):
        url = "https://sandbox.example/mcp"
        for client, path, servers, expected in (
                ("claude-code", ".mcp.json", "mcpServers",
                 {"type": "http", "url": url, "headers": {"Authorization": "Bearer ${TOKEN_1}"}}),
                ("cursor", ".cursor/mcp.json", "mcpServers",
                 {"url": url, "headers": {"Authorization": "Bearer ${env:TOKEN_1}"}}),
                ("vscode", ".vscode/mcp.json", "servers",
                 {"type": "http", "url": url, "headers": {"Authorization": "Bearer ${env:TOKEN_1}"}})):
            with self.subTest(client):
                self.assertEqual(self.entry(client, "--url", url, "--token-variable", "TOKEN_1", path=path,
                                            servers=servers), expected)

    def test_bad_wishes_for_clients(self):
        for args, says in ((("--client", "emacs"), "claude-desktop"),
                           (("--url", "http://127.0.0.1/mcp"), "--client"),
                           (("--client", "cursor", "--url", "ftp://x"), "http"),
                           (("--client", "claude-desktop", "--url", "http://127.0.0.1/mcp"), "connector"),
                           (("--client", "vscode", "--url", "http://x/mcp", "--token-variable", "a b"), "variable"),
                           (("--client", "vscode", "--url", "http://x/mcp", "--token-variable", "sk-secret"),
                            "not the token")):
            with self.subTest(args):
                done = self.fails(2, "init", *args, says=says)
                self.assertNotIn("sk-secret", done.stderr)

    def test_a_clients_file_is_merged_and_kept(self):
        (self.project / ".vscode").mkdir()
        before = '{"inputs": [{"id": "key"}], "servers": {"other": {"type": "http", "url": "u"}}}'
        self.write(".vscode/mcp.json", before)
        self.ok("init", "--client", "vscode")
        after = json.loads((self.project / ".vscode/mcp.json").read_text())
        del after["servers"]["snipara-sandbox"]
        self.assertEqual(after, json.loads(before))
        self.assertEqual((self.project / ".vscode/mcp.json.bak").read_text(), before)
        self.write(".vscode/mcp.json", '{\n  // comments are not JSON\n  "servers": {}\n}\n')
        done = self.run_cli("init", "--client", "vscode", "--force")
        self.assertEqual(done.returncode, 1)
        self.assertIn(".vscode/mcp.json", done.stderr)
        self.assertIn("comments", (self.project / ".vscode/mcp.json").read_text())

    def test_a_linked_directory_of_a_client_is_refused(self):
        (self.project / "elsewhere").mkdir()
        (self.project / ".cursor").symlink_to("elsewhere")
        done = self.run_cli("init", "--client", "cursor")
        self.assertEqual(done.returncode, 1)
        self.assertIn(".cursor is a symbolic link", done.stderr)
        self.assertEqual(list((self.project / "elsewhere").iterdir()), [])

    def test_leaves_no_temporary_files(self):
        self.ok("init", "--mcp")
        self.ok("init", "--mcp", "--force")
        names = {path.name for path in self.project.iterdir()} - {".git"}
        self.assertEqual(names, {"snipara-sandbox.cfg", ".env.example", ".mcp.json"})

    def test_toml_of_the_python_program_is_named(self):
        self.write("rlm.toml", "[rlm]\n")
        self.assertIn("rlm.toml is not read", self.ok("init").stderr)


if __name__ == "__main__":
    main()
