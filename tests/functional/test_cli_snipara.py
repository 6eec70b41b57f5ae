#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Snipara in the program: `snipara-status`, and its tools over MCP against a fake of the service."""
import datetime
import json
import os
import pathlib
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "plugins" / "context-snipara" / "tests"))
from tap import main, skip  # noqa: E402
from cli_case import PROGRAM, Case, environment  # noqa: E402
from fake_snipara import GOOD_KEY, GOOD_TOKEN, Snipara  # noqa: E402
from mcp_client import Server, text_of  # noqa: E402


def hours_from_now(hours, zone=True):
    now = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=hours)
    return now.isoformat() if zone else now.replace(tzinfo=None).isoformat()


class SniparaCase(Case):
    def write_tokens(self, tokens, mode=0o600):
        folder = pathlib.Path(self.home, ".snipara")
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / "tokens.json"
        path.write_text(tokens if isinstance(tokens, str) else json.dumps(tokens))
        path.chmod(mode)
        return path


class Status(SniparaCase):
    def status(self, *args, env=None):
        return json.loads(self.ok("snipara-status", "--json", *args, env=env).stdout)

    def test_nothing(self):
        found = self.status()
        self.assertEqual((found["authenticated"], found["auth_method"], found["project_slug"]), (False, None, None))
        self.assertEqual((found["oauth_projects"], found["api_key_available"], found["memory_enabled"]),
                         ([], False, False))
        self.assertEqual(found["base_url"], "https://api.snipara.com/mcp")
        text = self.ok("snipara-status").stdout
        self.assertIn("Not authenticated", text)
        self.assertIn("snipara-mcp-login", text)
        self.assertIn("SNIPARA_API_KEY", text)

    def test_tokens(self):
        path = self.write_tokens({
            "p1": {"access_token": "secret-one", "project_slug": "alpha", "expires_at": hours_from_now(-1)},
            "p2": {"access_token": "secret-two", "project_slug": "beta", "expires_at": hours_from_now(0.5, zone=False)},
            "p3": {"access_token": "secret-three", "project_id": "gamma"},
            "p4": {"access_token": "secret-four", "project_slug": "delta", "expires_at": "soon"},
        })
        found = self.status()
        self.assertEqual((found["authenticated"], found["auth_method"], found["project_slug"], found["problem"]),
                         (True, "oauth", "beta", None))
        self.assertEqual([(each["project_slug"], each["status"], each["valid"]) for each in found["oauth_projects"]],
                         [("alpha", "expired", False), ("beta", "valid", True), ("gamma", "no_expiry", True),
                          ("delta", "unknown", True)])
        self.assertIn(found["oauth_projects"][1]["expires_in_minutes"], range(20, 31))
        self.assertTrue(found["memory_enabled"])
        self.assertEqual(found["token_file"], str(path))
        done = self.ok("snipara-status")
        for part in ("Authenticated with OAuth", "alpha", "expired", "expires soon", "never expires", "can't be read",
                     "set snipara_project_slug"):
            self.assertIn(part, done.stdout)
        for text in (done.stdout, done.stderr, json.dumps(found)):
            self.assertNotIn("secret-", text)
        self.assertEqual(self.status(env={"SNIPARA_PROJECT_SLUG": "gamma"})["project_slug"], "gamma")
        self.assertEqual(self.status(env={"SNIPARA_PROJECT_SLUG": "p4"})["project_slug"], "delta")
        self.assertFalse(self.status(env={"SNIPARA_PROJECT_SLUG": "alpha"})["authenticated"])

    def test_keys(self):
        found = self.status(env={"SNIPARA_API_KEY": GOOD_KEY, "SNIPARA_PROJECT_SLUG": "mine"})
        self.assertEqual((found["auth_method"], found["project_slug"], found["problem"]), ("api_key", "mine", None))
        self.assertIn("SNIPARA_API_KEY", found["api_key_origin"])
        self.write("snipara-sandbox.cfg", f'snipara_api_key = "{GOOD_KEY}";\nsnipara_project_slug = "mine";\n')
        os.chmod(self.project / "snipara-sandbox.cfg", 0o600)
        found = self.status()
        self.assertEqual(found["auth_method"], "api_key")
        self.assertIn("snipara-sandbox.cfg:1", found["api_key_origin"])
        done = self.ok("snipara-status", "--verbose")
        self.assertIn("********", done.stdout)
        for part in range(len(GOOD_KEY) - 4):  # not even a part of it
            self.assertNotIn(GOOD_KEY[part:part + 5], done.stdout.replace("snipara", "") + done.stderr)

    def test_what_keeps_it_from_being_used(self):
        self.assertIn("SNIPARA_PROJECT_SLUG", self.status(env={"SNIPARA_API_KEY": GOOD_KEY})["problem"])
        key = {"SNIPARA_API_KEY": GOOD_KEY, "SNIPARA_PROJECT_SLUG": "mine"}
        self.assertIn("slug", self.status(env={**key, "SNIPARA_PROJECT_SLUG": "../x"})["problem"])
        self.assertIn("blanks", self.status(env={**key, "SNIPARA_API_KEY": "a b"})["problem"])
        self.assertIn("plain http", self.status(env={**key, "SNIPARA_BASE_URL": "http://example.com/mcp"})["problem"])
        self.assertIn("no enabled plugin", self.status("--set", "snipara.enabled=false", env=key)["problem"])
        self.assertIn("it is not used", self.ok("snipara-status", env={"SNIPARA_API_KEY": GOOD_KEY}).stdout)

    def test_odd_files(self):
        for text, says in (("{", "JSON"), ("[]", "not a JSON object"), ("x" * (2 << 20), "larger")):
            self.write_tokens(text)
            found = self.status()
            self.assertIn(says, found["token_file_problem"])
            self.assertIn(found["token_file_problem"], self.ok("snipara-status").stdout)
        self.write_tokens({}, 0o666)
        self.assertIn("written by everybody", self.status()["token_file_problem"])

    def test_names_are_no_terminal_commands(self):
        self.write_tokens({"p": {"access_token": "x", "project_slug": "a\x1b[31m"}})
        self.assertIn("slug", self.status()["problem"])


class Serve(SniparaCase):
    def setUp(self):
        super().setUp()
        root = os.environ.get("SNIPARA_SANDBOX_BUILD_ROOT")
        if root and not os.path.exists(f"{root}/plugins/context-snipara/context-snipara.so"):
            skip("context-snipara is not built")
        self.service = Snipara()
        self.addCleanup(self.service.close)

    def serve(self, **env):
        env = environment(self.home, SNIPARA_BASE_URL=self.service.base, **env)
        server = Server([PROGRAM, "mcp-serve"], cwd=self.project, env=env)
        self.addCleanup(server.__exit__, None, None, None)
        server.initialize()
        return server

    def test_tools_over_mcp(self):
        self.write_tokens({"p": {"access_token": GOOD_TOKEN, "project_slug": "normal",
                                 "expires_at": hours_from_now(1)}})
        server = self.serve()
        tools = {tool["name"]: tool for tool in server.ask("tools/list")["result"]["tools"]}
        self.assertIn("snipara_context_query", tools)
        self.assertIn("snipara_forget", tools)
        self.assertNotIn("rlm_search", tools)  # an alias: it can be called
        self.assertNotIn("_meta", tools["snipara_search"])
        for name in ("snipara_search", "rlm_search"):
            answer = json.loads(text_of(server.call(name, {"pattern": "x"})))
            self.assertEqual(answer, {"tool": "rlm_search", "arguments": {"pattern": "x", "max_results": 20}})
        self.assertIn("max_tokens", text_of(server.call("snipara_context_query", {"query": "x", "max_tokens": 1})))
        self.assertEqual(len(self.service.requests), 2)
        self.assertEqual(self.service.broken, [])

    def test_failures_over_mcp(self):
        server = self.serve(SNIPARA_API_KEY=GOOD_KEY, SNIPARA_PROJECT_SLUG="limited")
        result = server.call("snipara_sections", {})
        self.assertTrue(result["isError"])
        self.assertIn("3600 seconds", result["content"][0]["text"])
        self.assertEqual(result["_meta"]["snipara-sandbox/error"]["kind"], "rate_limited")

    def test_doctor(self):
        env = {"SNIPARA_BASE_URL": self.service.base, "SNIPARA_API_KEY": GOOD_KEY, "SNIPARA_PROJECT_SLUG": "normal"}

        def checks():
            done = self.run_cli("doctor", "--json", env=env)
            self.assertNotIn(GOOD_KEY, done.stdout + done.stderr)
            return {check["subject"]: check for check in json.loads(done.stdout)["checks"]
                    if check["area"].startswith("snipara ")}
        found = checks()
        self.assertEqual({subject: check["status"] for subject, check in found.items()},
                         {"credential": "ok", "service": "ok"})
        self.service.accepted = set()
        found = checks()
        self.assertEqual(found["service"]["status"], "failed")
        self.assertIn("SNIPARA_API_KEY", found["service"]["remedy"])


if __name__ == "__main__":
    main()
