#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The file tools over MCP, where the operator gives them to clients; and that nobody else gets them."""
import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from mcp_client import Server  # noqa: E402
from tap import main  # noqa: E402

from cli_case import PROGRAM, Case, environment  # noqa: E402

CLIENT_TOOLS = ["execute_python", "get_repl_context", "set_repl_context", "clear_repl_context", "list_sessions",
                "destroy_session", "checkpoint_session", "list_checkpoints", "rollback_session", "fork_session", "execute",
                "upload_file", "download_file", "list_files"]
PROJECT_TOOLS = {"file_read", "file_list"}


class FileTools(Case):
    def serve(self, *settings):
        arguments = [PROGRAM, "mcp-serve"]
        for setting in settings:
            arguments += ["--set", setting]
        server = Server(arguments, timeout=60, env=environment(self.home), cwd=self.project)
        server.__enter__()
        self.addCleanup(server.__exit__, None, None, None)
        server.initialize()
        return server

    def names(self, server):
        return [tool["name"] for tool in server.ask("tools/list")["result"]["tools"]]

    def test_clients_do_not_get_them(self):
        server = self.serve()
        self.assertTrue(PROJECT_TOOLS.isdisjoint(self.names(server)))
        response = server.ask("tools/call", {"name": "file_read", "arguments": {"path": "x"}})
        self.assertIn("file_read is not for clients", response["error"]["message"])
        self.assertIn("client_tools", json.dumps(response["error"]))

    def test_clients_that_get_them(self):
        self.project.joinpath("data").mkdir()
        self.write("data/a.csv", "id\n1\n2\n")
        self.write(".env", "KEY=not-for-clients\n")
        os.symlink("/etc/passwd", self.project / "link")
        server = self.serve("client_tools=file_*")
        self.assertEqual([name for name in self.names(server) if name in CLIENT_TOOLS], CLIENT_TOOLS)
        self.assertLessEqual(PROJECT_TOOLS, set(self.names(server)))
        told = json.loads(server.call("file_read", {"path": "data/a.csv", "start_line": 2})["content"][0]["text"])
        self.assertEqual((told["content"], told["start_line"], told["end_line"], told["total_lines"], told["truncated"]),
                         ("1\n2\n", 2, 3, 3, False))
        self.assertEqual(told["path"], str(self.project.resolve() / "data" / "a.csv"))
        told = json.loads(server.call("file_list", {"pattern": "*.csv", "recursive": True})["content"][0]["text"])
        self.assertEqual([(f["name"], f["size"], f["is_dir"]) for f in told["files"]], [("a.csv", 7, False)])
        for path in ("../x", "/etc/passwd", "link", ".env"):
            result = server.call("file_read", {"path": path})
            self.assertTrue(result["isError"], path)
            self.assertIn("Access denied", result["content"][0]["text"])
            self.assertEqual(result["structuredContent"]["content"], None)

    def test_one_name_for_two_tools(self):
        """To a client, list_files is the tool for a session's files; no pattern makes it the project's."""
        self.write("a.txt", "a")
        server = self.serve("client_tools=list_*")
        self.assertTrue(PROJECT_TOOLS.isdisjoint(self.names(server)))
        self.assertEqual(json.loads(server.call("list_files")["content"][0]["text"])["files"], [])
        self.assertIn("file_list is not for clients", server.ask("tools/call", {"name": "file_list"})["error"]["message"])

    def test_allowed_paths(self):
        outside = pathlib.Path(self.home) / "data"
        outside.mkdir(parents=True, exist_ok=True)
        (outside / "b.txt").write_text("b", encoding="utf-8")
        self.write("a.txt", "a")
        server = self.serve("client_tools=file_read", f"allowed_paths={outside}")
        told = json.loads(server.call("file_read", {"path": str(outside / "b.txt")})["content"][0]["text"])
        self.assertEqual(told["content"], "b")
        self.assertIn("Allowed (setting allowed_paths)", server.call("file_read", {"path": "a.txt"})["content"][0]["text"])


if __name__ == "__main__":
    main()
