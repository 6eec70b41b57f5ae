#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files and artifacts of sessions over MCP, through a real guest: tools, resources, prompts, and ways out of a workspace."""
import base64
import hashlib
import json
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import mcp_http  # noqa: E402
from mcp_client import Server, text_of  # noqa: E402
from tap import main, skip  # noqa: E402

from cli_case import PROGRAM, Case, environment  # noqa: E402

# A stand-in for what a plotting library gives: a valid PNG signature, and as many bytes as asked for.
PLOT = """
class Plot:
    def __init__(self, size): self.size = size
    def _repr_png_(self): return b"\\x89PNG\\r\\n\\x1a\\n" + bytes(self.size - 8)
"""

LEAVING = ("../../etc/shadow", "/etc/shadow", "a/../../../etc/shadow", "..", "%2e%2e/x\0", "a/..", "./../x")
SECRET = "the host's own secret"


class Files(Case):
    def serve(self, *settings):
        arguments = [PROGRAM, "mcp-serve"]
        for setting in settings:
            arguments += ["--set", setting]
        server = Server(arguments, timeout=120, env=dict(environment(self.home), SBX_TEST_SECRET=SECRET), cwd=self.project)
        server.__enter__()
        self.addCleanup(server.__exit__, None, None, None)
        server.initialize()
        return server

    # ---- short ways; notifications may come at any time

    def ask(self, server, method, params=None):
        wanted = server.request(method, params or {})
        while True:
            message = server.message()
            if message.get("id") == wanted:
                return message
            self.assertIn("method", message)

    def call(self, server, name, **arguments):
        response = self.ask(server, "tools/call", {"name": name, "arguments": arguments})
        self.assertIn("result", response)
        return response["result"]

    def ok(self, server, name, **arguments):
        result = self.call(server, name, **arguments)
        self.assertFalse(result["isError"], result)
        return result

    def fails(self, server, name, **arguments):
        result = self.call(server, name, **arguments)
        self.assertTrue(result["isError"], result)
        return text_of(result)

    def run_code(self, server, code, session="default"):
        return self.ok(server, "execute_python", code=code, session_id=session)

    def resources(self, server):
        found = []
        cursor = {}
        while True:
            page = self.ask(server, "resources/list", cursor)["result"]
            found += page["resources"]
            if "nextCursor" not in page:
                return found
            cursor = {"cursor": page["nextCursor"]}

    def read(self, server, uri):
        response = self.ask(server, "resources/read", {"uri": uri})
        self.assertIn("result", response, response)
        (content,) = response["result"]["contents"]
        self.assertEqual(content["uri"], uri)
        return base64.b64decode(content["blob"]) if "blob" in content else content["text"]

    # ---- tools

    def test_there_and_back(self):
        server = self.serve()
        everything = bytes(range(256)) * 50
        self.ok(server, "upload_file", path="in/table.csv", content="a,b\n1,2\n")
        self.ok(server, "upload_file", path="in/raw", content_base64=base64.b64encode(everything).decode())
        self.assertIn("[(1, 2)] True", text_of(self.run_code(
            server, "rows = [tuple(map(int, line.split(','))) for line in open('in/table.csv').readlines()[1:]]\n"
                    "print(rows, open('in/raw', 'rb').read() == bytes(range(256)) * 50)")))
        self.run_code(server, "import os\nos.makedirs('out', exist_ok=True)\nopen('out/é ü.txt', 'w').write('naïve')\n"
                              "open('out/x.png', 'wb').write(b'\\x89PNG\\r\\n\\x1a\\n123')")
        result = self.ok(server, "download_file", path="out/é ü.txt")
        self.assertEqual(result["content"][0], {"type": "text", "text": "naïve"})
        self.assertEqual(result["content"][1]["uri"], "repl://default/files/out/%C3%A9%20%C3%BC.txt")
        self.assertEqual(result["content"][1]["size"], 6)
        image = self.ok(server, "download_file", path="out/x.png")["content"][0]
        self.assertEqual((image["type"], image["mimeType"]), ("image", "image/png"))
        resource = self.ok(server, "download_file", path="in/raw")["content"][1]["resource"]
        self.assertEqual(base64.b64decode(resource["blob"]), everything)
        told = json.loads(text_of(self.ok(server, "list_files")))
        self.assertEqual([(file["path"], file["type"], file["size"]) for file in told["files"] if file["type"] == "file"],
                         [("in/raw", "file", 12800), ("in/table.csv", "file", 8), ("out/x.png", "file", 11),
                          ("out/é ü.txt", "file", 6)])
        self.assertEqual([file["path"] for file in json.loads(text_of(self.ok(server, "list_files", path="in")))["files"]],
                         ["in/raw", "in/table.csv"])
        self.assertEqual(json.loads(text_of(self.ok(server, "list_files", session_id="other")))["files"], [])

    def test_large_files(self):
        server = self.serve("mcp.max_message=64m")
        content = os.urandom(32 << 20)
        self.ok(server, "upload_file", path="large", content_base64=base64.b64encode(content).decode())
        self.assertIn(hashlib.sha256(content).hexdigest(), text_of(self.run_code(
            server, "import hashlib\nhashlib.sha256(open('large', 'rb').read()).hexdigest()")))
        self.assertIn("larger than 8388608 bytes", self.fails(server, "download_file", path="large"))
        self.assertIn("at most 33554432", self.fails(
            server, "upload_file", path="l", content_base64=base64.b64encode(content + b"x").decode()))
        self.run_code(server, "open('eight', 'wb').write(open('large', 'rb').read(8 << 20))")
        resource = self.ok(server, "download_file", path="eight")["content"][1]["resource"]
        self.assertEqual(base64.b64decode(resource["blob"]), content[:8 << 20])
        self.assertEqual(self.read(server, "repl://default/files/eight"), content[:8 << 20])

    def test_a_small_session_survives_a_large_file(self):
        server = self.serve()
        self.ok(server, "execute_python", code="x = 1", profile="quick")
        self.ok(server, "upload_file", path="f", content="a" * (16 << 20))
        self.fails(server, "download_file", path="f")
        self.assertEqual(text_of(self.run_code(server, "x")), "1")

    def test_what_is_no_file(self):
        server = self.serve()
        self.run_code(server, "import os\nos.mkfifo('pipe')\nos.mkdir('d')\nopen(b'caf\\xe9', 'w').close()\n"
                              "os.symlink('nowhere', 'dangling')\nos.symlink('d', 'to_d')")
        self.assertIn("Not a regular file", self.fails(server, "download_file", path="pipe"))
        self.fails(server, "upload_file", path="pipe", content="x")
        self.assertIn("Is a directory", self.fails(server, "download_file", path="d"))
        self.assertIn("No such file", self.fails(server, "download_file", path="dangling"))
        self.assertIn("No such file", self.fails(server, "list_files", path="none"))
        told = json.loads(text_of(self.ok(server, "list_files")))
        self.assertEqual({file["path"]: file["type"] for file in told["files"]},
                         {"caf\ufffd": "other", "d": "directory", "dangling": "link", "pipe": "other", "to_d": "link"})
        self.assertEqual(self.resources(server), [])
        for name in ("pipe", "d", "dangling", "caf%EF%BF%BD"):
            self.assertEqual(self.ask(server, "resources/read", {"uri": f"repl://default/files/{name}"})["error"]["code"],
                             -32002, name)
        self.ok(server, "upload_file", path="dangling", content="followed")  # to where the guest's link leads
        self.assertEqual(text_of(self.run_code(server, "open('nowhere').read()")), "'followed'")

    def test_a_huge_directory(self):
        server = self.serve()
        self.run_code(server, "import os\nos.mkdir('many')\nfor i in range(12_000): os.mknod(f'many/{i:05}')")
        result = text_of(self.ok(server, "list_files"))
        self.assertTrue(json.loads(result)["truncated"])
        self.assertLess(len(result), 30_000)
        while not self.resources(server):  # the session is busy for as long as its state is kept
            pass
        self.assertEqual(len(self.resources(server)), 1000)

    # ---- artifacts

    def test_long_output(self):
        server = self.serve()
        result = self.run_code(server, "for i in range(20_000): print(i)")
        self.assertIn("... [cut: ", text_of(result))
        link = result["content"][1]
        self.assertEqual((link["type"], link["name"], link["mimeType"]), ("resource_link", "output-1.txt", "text/plain"))
        self.assertEqual(self.read(server, link["uri"]), "".join(f"{i}\n" for i in range(20_000)))
        self.assertIn(link["uri"], [resource["uri"] for resource in self.resources(server)])
        self.assertEqual(len(self.call(server, "execute", code="print('x' * 40_000)")["content"]), 1)

    def test_plots(self):
        server = self.serve()
        self.run_code(server, PLOT, "p")
        result = self.run_code(server, "for i in range(5): display(Plot(100 + i))\ndisplay(Plot(600_000))", "p")
        self.assertEqual([block["type"] for block in result["content"]],
                         ["image", "resource_link"] * 4 + ["resource_link"] * 2 + ["text"])
        self.assertEqual([block["size"] for block in result["content"] if block["type"] == "resource_link"],
                         [100, 101, 102, 103, 104, 600_000])
        for index in (0, 2, 4, 6):
            self.assertEqual(self.read(server, result["content"][index + 1]["uri"]),
                             base64.b64decode(result["content"][index]["data"]))
        self.assertEqual(len(self.read(server, result["content"][9]["uri"])), 600_000)
        self.ok(server, "destroy_session", session_id="p")
        self.assertEqual(self.ask(server, "resources/read", {"uri": result["content"][1]["uri"]})["error"]["code"], -32002)
        self.assertEqual(self.resources(server), [])

    def test_listing_waits_for_nothing(self):
        server = self.serve()
        self.run_code(server, "open('f', 'w').write('x')", "idle")
        self.run_code(server, "open('f', 'w').write('x')\nprint('y' * 40_000)", "busy")
        running = server.request("tools/call", {"name": "execute_python", "arguments": {
            "code": "while True: pass", "session_id": "busy"}})
        while "busy" not in text_of(self.call(server, "list_sessions")).partition("- busy:")[2]:
            pass
        listed = self.resources(server)  # while the loop goes on
        self.assertEqual([resource["uri"] for resource in listed],
                         ["repl://busy/artifacts/output-1.txt", "repl://idle/files/f"])
        server.notify("notifications/cancelled", {"requestId": running})
        self.assertEqual(self.read(server, "repl://busy/files/f"), "x")  # waits for its turn
        self.assertEqual(self.ask(server, "resources/read", {"uri": "repl://none/files/f"})["error"]["code"], -32002)
        self.assertNotIn("none", text_of(self.call(server, "list_sessions")))  # reading starts nothing

    # ---- prompts and completions

    def test_prompts_and_completions(self):
        server = self.serve()
        self.run_code(server, "open('data.csv', 'w').write('a')\ntotal = 3", "alpha")
        self.run_code(server, "1", "beta")

        def complete(ref, name, value, **given):
            return self.ask(server, "completion/complete", {
                "ref": ref, "argument": {"name": name, "value": value}, "context": {"arguments": given}})["result"][
                    "completion"]["values"]

        files = {"type": "ref/resource", "uri": "repl://{session}/files/{+path}"}
        self.assertEqual(complete(files, "session", ""), ["default", "alpha", "beta"])
        self.assertEqual(complete(files, "session", "al"), ["alpha"])
        self.assertEqual(complete(files, "path", "da", session="alpha"), ["data.csv"])
        self.assertEqual(complete(files, "path", "da", session="beta"), [])
        self.assertEqual(complete(files, "path", "da"), [])
        self.assertEqual(complete({"type": "ref/prompt", "name": "summarize_session"}, "session_id", "b"), ["beta"])
        for prompt in self.ask(server, "prompts/list")["result"]["prompts"]:
            arguments = {argument["name"]: "alpha" if argument["name"] == "session_id" else "a ``` b"
                         for argument in prompt["arguments"]}
            told = self.ask(server, "prompts/get", {"name": prompt["name"], "arguments": arguments})["result"]
            text = told["messages"][0]["content"]["text"]
            self.assertIn("alpha", text, prompt["name"])
            if "code" in arguments or "error" in arguments:
                self.assertIn("````", text, prompt["name"])  # a fence that the text can't close
            missing = {name: value for name, value in arguments.items() if name == "session_id"}
            if any(argument["required"] for argument in prompt["arguments"]):
                self.assertEqual(self.ask(server, "prompts/get", {"name": prompt["name"], "arguments": missing})["error"][
                    "code"], -32602)
        self.assertIn("total", self.ask(server, "prompts/get", {"name": "summarize_session", "arguments": {
            "session_id": "alpha"}})["result"]["messages"][0]["content"]["text"])

    # ---- ways out

    def test_ways_out(self):
        """Through a path, an address, or a link that the guest made: nothing of the host comes back."""
        server = self.serve()
        self.run_code(server, "import os\nos.symlink('/etc/shadow', 'shadow')\nos.symlink('/', 'root')\n"
                              "os.symlink('/proc/1/environ', 'environ')\nos.symlink('../..', 'up')\n"
                              "os.symlink('/proc/self/environ', 'own')")
        for path in LEAVING:
            for tool, more in (("upload_file", {"content": "x"}), ("download_file", {}), ("list_files", {})):
                self.fails(server, tool, path=path, **more)
            response = self.ask(server, "resources/read", {"uri": "repl://default/files/" + path.replace("\0", "%00")})
            self.assertIn("error", response, path)
        host = pathlib.Path("/etc/shadow")
        shadow = host.read_text(encoding="utf-8") if os.access(host, os.R_OK) else None
        for path in ("shadow", "environ", "own", "root/etc/shadow", "root/proc/1/environ", "up/etc/shadow",
                     "root/proc/1/root/etc/shadow"):
            for result in (self.call(server, "download_file", path=path),
                           self.ask(server, "resources/read", {"uri": f"repl://default/files/{path}"})):
                text = json.dumps(result)
                self.assertNotIn(SECRET, text, path)
                self.assertNotIn(base64.b64encode(SECRET.encode()).decode()[:16], text, path)
                if shadow is not None:
                    self.assertNotIn(json.dumps(shadow.splitlines()[0])[1:-1], text, path)
        self.assertTrue(self.call(server, "upload_file", path="shadow", content="x")["isError"])
        for path in ("root", "up"):
            self.assertNotIn(str(self.project), json.dumps(self.call(server, "list_files", path=path)), path)
        self.assertNotIn("artifacts", json.dumps(self.resources(server)))
        for uri in ("repl://default/artifacts/../../etc/passwd", "repl://default/artifacts/%2e%2e", "repl:///files/x",
                    "repl://default@evil/files/x", "file:///etc/passwd", "repl://default/files//etc/passwd"):
            self.assertIn("error", self.ask(server, "resources/read", {"uri": uri}), uri)

    def expire(self, server):
        """Waits until the session s has been idle for too long."""
        while "s" in [session["id"] for session in self.call(server, "list_sessions")["structuredContent"]["sessions"]]:
            pass

    def test_expired_sessions(self):
        server = self.serve("session_ttl=200ms", "store=")
        self.ok(server, "upload_file", path="f", content="x", session_id="s")
        self.expire(server)
        self.assertEqual(self.ask(server, "resources/read", {"uri": "repl://s/files/f"})["error"]["code"], -32002)
        self.assertIn("expired", self.fails(server, "download_file", path="f", session_id="s"))

    def test_stored_sessions_have_their_files(self):
        done = self.run_cli("sessions", "list")
        if "does not exist" in done.stderr:
            skip(f"there is no store here: {done.stderr.strip()}")
        server = self.serve("session_ttl=200ms")
        self.ok(server, "upload_file", path="f", content="x", session_id="s")
        self.expire(server)
        self.assertEqual(self.ask(server, "resources/read", {"uri": "repl://s/files/f"})["error"]["code"], -32002)
        self.assertEqual(text_of(self.ok(server, "download_file", path="f", session_id="s")), "x")


class TwoClients(unittest.TestCase):
    """Over HTTP, with a token each: what is one's is nothing to the other, in both eras."""

    TOKENS = {"alice": "alice-0123456789abcdef", "bob": "bob-0123456789abcdef"}

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        tokens = pathlib.Path(directory.name, "tokens")
        tokens.write_text("".join(f"{name} {token}\n" for name, token in self.TOKENS.items()), encoding="utf-8")
        tokens.chmod(0o600)
        self.server = mcp_http.Server("--token-file", str(tokens), timeout=120)
        self.addCleanup(self.server.__exit__, None, None, None)

    def client(self, name, legacy=False):
        client = mcp_http.Client(self.server.url, timeout=120,
                                 headers={"Authorization": "Bearer " + self.TOKENS[name]})
        self.addCleanup(client.__exit__, None, None, None)
        if legacy:
            client.initialize()
        return client

    @staticmethod
    def error(client, uri):
        return json.dumps(client.request("resources/read", {"uri": uri})["error"]).replace(uri, "URI")

    def test_what_is_anothers_does_not_exist(self):
        alice = self.client("alice")
        alice.call("upload_file", {"path": "secret.txt", "content": "of alice", "session_id": "s"})
        self.assertIn("[cut: ", text_of(alice.call("execute_python", {"code": "print('x' * 40_000)", "session_id": "s"})))
        uris = {resource["uri"] for resource in alice.result("resources/list")["resources"]}
        self.assertEqual(uris, {"repl://s/files/secret.txt", "repl://s/artifacts/output-1.txt"})
        for legacy in (False, True):
            bob = self.client("bob", legacy)
            self.assertEqual(bob.result("resources/list")["resources"], [], legacy)
            for uri in uris:
                nobodys = self.error(bob, uri.replace("//s/", "//t/"))
                self.assertEqual(self.error(bob, uri), nobodys.replace("'t'", "'s'"))
            told = bob.result("completion/complete", {
                "ref": {"type": "ref/resource", "uri": "repl://{session}/files/{+path}"},
                "argument": {"name": "path", "value": ""}, "context": {"arguments": {"session": "s"}}})
            self.assertEqual(told["completion"]["values"], [])
            self.assertTrue(bob.call("download_file", {"path": "secret.txt", "session_id": "s"})["isError"])
            self.assertEqual(json.loads(text_of(bob.call("list_files", {"session_id": "s"})))["files"], [])
            bob.call("upload_file", {"path": "secret.txt", "content": "of bob", "session_id": "s"})  # his own s
            bob.call("destroy_session", {"session_id": "s"})
        self.assertEqual(alice.result("resources/read", {"uri": "repl://s/files/secret.txt"})["contents"][0]["text"],
                         "of alice")


if __name__ == "__main__":
    main()
