#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program's commands, from outside: usage, bad input, doctor, plugins, mcp-serve."""
import contextlib
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import main, skip  # noqa: E402
from cli_case import PROGRAM, ROOT, TIMEOUT, Case, commands, environment, sandbox_problem  # noqa: E402


class Usage(Case):
    def test_version(self):
        wanted = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text()).group(1)
        for args in (["version"], ["--version"], ["-V"]):
            self.assertEqual(self.ok(*args).stdout, f"snipara-sandbox {wanted}\n")

    def test_help_lists_every_command(self):
        overview = self.ok("help").stdout
        self.assertEqual(self.ok("--help").stdout, overview)
        self.assertEqual(self.ok("-h").stdout, overview)
        for command in commands():
            self.assertIn(command["name"], overview)
            self.assertIn(command["summary"], overview)

    def test_help_of_each_command(self):
        for command in commands():
            words = command["name"].split()
            text = self.ok("help", *words).stdout
            self.assertEqual(self.ok(*words, "--help").stdout, text)
            self.assertEqual(self.ok(*words, "-h").stdout, text)
            self.assertIn(f"usage: snipara-sandbox {command['name']}", text)
            for option in command["options"]:
                self.assertIn(f"--{option['name']}", text)
                self.assertIn(option["help"], text)

    def test_no_command(self):
        done = self.run_cli()
        self.assertEqual(done.returncode, 2)
        self.assertIn("Commands", done.stdout)

    def test_unknown_command_names_the_nearest(self):
        for typed, meant in (("exce", "exec"), ("dcotor", "doctor"), ("serve-mcp", None), ("mcp-server", "mcp-serve"),
                             ("versoin", "version"), ("plugin", "plugins list")):
            done = self.fails(2, typed, says=f"no command '{typed}'")
            if meant:
                self.assertIn(f"did you mean 'snipara-sandbox {meant}'", done.stderr)

    def test_groups_name_their_commands(self):
        self.fails(2, "config", says="'snipara-sandbox config show'")
        self.fails(2, "plugins", "lst", says=("no command 'lst'", "'snipara-sandbox plugins list'"))

    def test_commands_of_another_version(self):
        for name in ("visualize",):
            self.fails(2, name, says=(f"'{name}' is not in this version", "hint: "))
            self.assertNotRegex(self.ok("help").stdout, rf"(?m)^  {name}\b")

    def test_bad_options(self):
        self.fails(2, "exec", "--jsn", says=("no option --jsn", "did you mean --json"))
        self.fails(2, "exec", "--nonsense=1", says="no option --nonsense")
        self.fails(2, "exec", "-Z", says="no option -Z")
        self.fails(2, "exec", "-c", says="--code needs a value")
        self.fails(2, "exec", "--profile", says="--profile needs a value")
        self.fails(2, "exec", "--json=yes", "-c", "1", says="--json takes no value")
        self.fails(2, "exec", "--set", "novalue", "-c", "1", says="--set novalue")
        self.fails(2, "exec", "--set", "=x", "-c", "1", says="--set =x")
        self.fails(2, "--json", "exec", says="--json is not an option of the program itself")

    def test_too_many_arguments(self):
        for words in (["version"], ["doctor"], ["snipara-status"], ["repl"], ["mcp-serve"], ["config", "show"],
                      ["plugins", "list"]):
            self.fails(2, *words, "surplus", says="surplus")
        self.fails(2, "init", ".", "surplus", says="surplus")
        self.fails(2, "plugins", "info", says="the name of one plugin")
        self.fails(2, "plugins", "check", "a", "b", says="one file")

    def test_older_name(self):
        link = self.project / "rlm"
        link.symlink_to(PROGRAM)
        self.assertEqual(self.ok("version", program=str(link)).stdout, self.ok("version").stdout)
        self.assertIn("usage: rlm COMMAND", self.ok("help", program=str(link)).stdout)

    def test_closed_standard_descriptors(self):
        code = ("import os, sys\nfor fd in map(int, sys.argv[1].split(',')): os.close(fd)\n"
                "os.execv(sys.argv[2], sys.argv[2:])")
        for closed in ("0", "1", "2", "0,1,2"):
            done = subprocess.run([sys.executable, "-c", code, closed, PROGRAM, "version"], capture_output=True,
                                  env=environment(self.home), timeout=TIMEOUT, check=False)
            self.assertEqual(done.returncode, 0, closed)

    def test_nobody_reads(self):
        done = subprocess.run(["bash", "-c", '"$0" help --json | true', PROGRAM], capture_output=True, text=True,
                              env=environment(self.home), timeout=TIMEOUT, check=False)
        self.assertEqual(done.stderr, "")

    def test_a_full_disk_is_told(self):
        if not os.path.exists("/dev/full"):
            skip("no /dev/full")
        with open("/dev/full", "wb") as full:
            done = subprocess.run([PROGRAM, "version"], stdout=full, env=environment(self.home), timeout=TIMEOUT,
                                  check=False)
        self.assertEqual(done.returncode, 1)


class BadInput(Case):
    def test_time_outs(self):
        for text, says in (("0", "no time"), ("-1", "--timeout"), ("10000", "600 seconds"), ("11m", "600 seconds"),
                           ("soon", "no duration"), ("", "no duration"), ("99999999999999999999", "--timeout"),
                           ("1e3", "--timeout"), ("nan", "--timeout")):
            self.fails(2, "exec", "--timeout", text, "-c", "1", says=(says, "hint: "))

    def test_unknown_profile(self):
        self.fails(2, "exec", "--profile", "huge", "-c", "1", says=("huge", "quick", "extended"))

    def test_unknown_environment(self):
        self.fails(2, "exec", "--env", "moon", "-c", "1", says="moon")
        self.fails(2, "exec", "--set", "environment=moon", "-c", "1", says="moon")
        self.fails(2, "exec", "--env", "mcp", "-c", "1", says="mcp")

    def test_bad_session_name(self):
        for name in ("a/b", "a b", "x" * 200, "ä"):
            self.fails(2, "exec", "--session", name, "-c", "1", says="session")

    def config_fails(self, text, *says):
        path = self.write("snipara-sandbox.cfg", text)
        for command in (["config", "show"], ["exec", "-c", "1"], ["plugins", "list"]):
            done = self.fails(2, *command, says=says)
            self.assertIn(f"{path}:", done.stderr)
        return path

    def test_unknown_key(self):
        path = self.config_fails('environment = "local";\n\nmodle = "x";\n', "modle", "model")
        self.assertIn(f"{path}:3", self.run_cli("config", "show").stderr)

    def test_wrong_type(self):
        path = self.config_fails("# one\nmax_sessions = \"many\";\n", "max_sessions")
        self.assertIn(f"{path}:2", self.run_cli("config", "show").stderr)
        self.config_fails("model = 3;\n", "model")

    def test_out_of_range(self):
        path = self.config_fails("max_sessions = 100000;\n", "max_sessions", "65536")
        self.assertIn(f"{path}:1", self.run_cli("config", "show").stderr)
        self.config_fails("timeout_seconds = 601;\n", "timeout_seconds", "600")

    def test_syntax_error(self):
        path = self.config_fails("environment = \"local\";\nmodel = = 3;\n")
        self.assertIn(f"{path}:2", self.run_cli("config", "show").stderr)

    def test_flags_and_variables(self):
        self.fails(2, "config", "show", "--set", "modle=x", says=("modle", "model"))
        self.fails(2, "config", "show", "--set", "max_sessions=many", says="max_sessions")
        self.fails(2, "config", "show", env={"SNIPARA_SANDBOX_MAX_SESSIONS": "many"},
                   says="SNIPARA_SANDBOX_MAX_SESSIONS")
        self.fails(2, "config", "show", env={"RLM_MAX_DEPTH": "99"}, says="RLM_MAX_DEPTH")

    def test_missing_configuration(self):
        self.fails(2, "config", "show", "--config", "missing.cfg", says="missing.cfg")
        self.fails(2, "exec", "-c", "1", env={"SNIPARA_SANDBOX_CONFIG": "missing.cfg"}, says="missing.cfg")

    def test_unknown_option_of_a_plugin(self):
        path = self.write("snipara-sandbox.cfg",
                          'plugins = (\n  { name = "local"; plugin = "backend-local"; pol = 3; }\n);\n')
        done = self.fails(2, "exec", "-c", "1", says="pol")
        if "does not exist" not in done.stderr:
            self.assertIn(f"{path}:2", done.stderr)
            self.assertIn("pool", done.stderr)

    def test_missing_plugin(self):
        self.write("snipara-sandbox.cfg",
                   'environment = "moon";\nplugins = ( { name = "moon"; plugin = "backend-moon"; } );\n')
        self.fails(2, "exec", "-c", "1", says="backend-moon")
        rows = json.loads(self.ok("plugins", "list", "--json").stdout)
        row = next(row for row in rows if row["name"] == "backend-moon")
        self.assertEqual(row["state"], "broken")
        self.assertIn("backend-moon", row["problem"])

    def test_world_writable_plugin(self):
        plugin = self.plugin_file()
        copy = self.project / plugin.name
        shutil.copy(plugin, copy)
        for mode in (0o666, 0o664, 0o757):
            copy.chmod(mode)
            done = self.fails(1, "plugins", "check", copy, says=(copy.name, "can be written"))
            self.assertIn("chmod", done.stderr)
        copy.chmod(0o644)
        self.ok("plugins", "check", copy)
        self.write("snipara-sandbox.cfg", f'plugins = ( {{ name = "local"; plugin = "{copy}"; }} );\n')
        copy.chmod(0o666)
        done = self.run_cli("exec", "-c", "print(1)")
        self.assertIn(done.returncode, (2, 3))
        self.assertEqual(done.stdout, "")
        self.assertIn("can be written", done.stderr)

    def plugin_file(self):
        for row in json.loads(self.ok("plugins", "list", "--json").stdout):
            if row["name"] == "backend-local" and row["state"] != "broken":
                return pathlib.Path(row["path"])
        skip("backend-local was not built")


class Doctor(Case):
    def test_json(self):
        done = self.run_cli("doctor", "--json")
        value = json.loads(done.stdout)
        self.assertEqual(done.returncode, 0 if value["ok"] else 1)
        self.assertEqual(value["ok"], not any(check["status"] == "failed" for check in value["checks"]))
        for check in value["checks"]:
            self.assertEqual(set(check), {"area", "subject", "status", "detail", "remedy"})
            self.assertIn(check["status"], ("ok", "warning", "failed"))
            self.assertTrue(check["status"] != "failed" or check["remedy"], check)
        areas = {check["area"] for check in value["checks"]}
        self.assertTrue({"configuration", "plugins", "machine", "local (backend-local)"} <= areas, areas)

    def test_table(self):
        done = self.run_cli("doctor")
        self.assertIn(done.returncode, (0, 1))
        self.assertRegex(done.stdout, r"(?m)^  [✓✗○]  kernel +Linux ")
        self.assertRegex(done.stdout, "Everything needed is there|problem")

    def test_agrees_with_the_sandbox(self):
        if sandbox_problem() is None:
            self.assertEqual(self.run_cli("doctor").returncode, 0, self.run_cli("doctor").stdout)

    def test_broken_configuration(self):
        path = self.write("snipara-sandbox.cfg", "modle = 1;\n")
        done = self.run_cli("doctor")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{path}:1", done.stdout)
        self.assertIn("✗", done.stdout)
        self.assertIn("→", done.stdout)
        self.assertIn("kernel", done.stdout)

    def test_environment_without_a_backend(self):
        done = self.run_cli("doctor", "--set", "environment=moon", "--json")
        self.assertEqual(done.returncode, 1)
        failed = [check for check in json.loads(done.stdout)["checks"] if check["subject"] == "environment"]
        self.assertEqual(failed[0]["status"], "failed")


class Plugins(Case):
    def rows(self):
        return {row["name"]: row for row in json.loads(self.ok("plugins", "list", "--json").stdout)}

    def test_list(self):
        rows = self.rows()
        self.assertIn("backend-local", rows)
        text = self.ok("plugins", "list").stdout
        for name, row in rows.items():
            self.assertRegex(text, rf"(?m)^{name}\b.*{row['state']}")
            self.assertIn(row["state"], ("configured", "available", "broken"))
        if rows["backend-local"]["state"] == "broken":
            skip("backend-local was not built")
        self.assertEqual(rows["backend-local"]["kind"], "backend")
        self.assertEqual(rows["backend-local"]["entries"], ["local"])
        self.write("snipara-sandbox.cfg", 'plugins = ( { name = "local"; enabled = false; } );\n')
        self.assertEqual(self.rows()["backend-local"]["state"], "available")

    def test_info(self):
        if self.rows()["backend-local"]["state"] == "broken":
            skip("backend-local was not built")
        value = json.loads(self.ok("plugins", "info", "backend-local", "--json").stdout)
        options = {option["name"]: option for option in value["options"]}
        self.assertEqual([options["pool"][key] for key in ("type", "minimum", "maximum")], ["int", 0, 64])
        self.assertEqual(json.loads(self.ok("plugins", "info", "local", "--json").stdout), value)
        text = self.ok("plugins", "info", "backend-local").stdout
        for name, option in options.items():
            self.assertRegex(text, rf"(?m)^{re.escape(name)} +{option['type']}\b")

    def test_unknown(self):
        self.fails(2, "plugins", "info", "backend-moon", says=("backend-moon", "plugins list"))

    def test_check(self):
        row = self.rows()["backend-local"]
        if row["state"] == "broken":
            skip("backend-local was not built")
        self.assertIn("a good backend plugin, backend-local", self.ok("plugins", "check", row["path"]).stdout)
        self.assertTrue(json.loads(self.ok("plugins", "check", "--json", row["path"]).stdout)["ok"])

    def test_check_refuses(self):
        text = self.write("text.so", "no plugin")
        self.fails(1, "plugins", "check", text, says="text.so")
        done = self.run_cli("plugins", "check", "--json", text)
        self.assertEqual(done.returncode, 1)
        self.assertFalse(json.loads(done.stdout)["ok"])
        self.fails(2, "plugins", "check", "missing.so", says="missing.so")
        self.assertNotEqual(self.run_cli("plugins", "check", self.project).returncode, 0)
        fifo = self.project / "fifo.so"
        os.mkfifo(fifo)
        self.assertNotEqual(self.run_cli("plugins", "check", fifo).returncode, 0)


class McpServe(Case):
    def serve(self):
        rows = json.loads(self.ok("plugins", "list", "--json").stdout)
        if not any(row["name"] == "transport-mcp" and row["state"] == "configured" for row in rows):
            skip("transport-mcp was not built")
        return self.start("mcp-serve", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def initialize(self, process):
        request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        self.assertTrue(select.select([process.stdout], [], [], 60)[0], "no answer")
        answer = json.loads(process.stdout.readline())
        self.assertEqual((answer["id"], answer["result"]["protocolVersion"]), (1, "2025-06-18"))

    def test_ends_with_its_client(self):
        process = self.serve()
        self.initialize(process)
        process.stdin.close()
        self.assertEqual(process.wait(30), 0)
        self.assertEqual(process.stdout.read(), b"")

    def test_ends_by_signal(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            process = self.serve()
            self.initialize(process)
            process.send_signal(number)
            self.assertEqual(process.wait(30), 0, process.stderr.read())

    def test_survives_a_client_that_does_not_read(self):
        process = self.serve()
        self.initialize(process)
        process.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(b'{"jsonrpc": "2.0", "id": 2, "method": "ping"}\n')
            process.stdin.close()
        self.assertIn(process.wait(30), (0, 3), process.stderr.read())

    def test_bad_configuration_says_nothing_on_standard_output(self):
        self.fails(2, "mcp-serve", "--set", "modle=1", says="modle")


if __name__ == "__main__":
    main()
