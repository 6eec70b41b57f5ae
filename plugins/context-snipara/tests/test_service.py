# SPDX-License-Identifier: Apache-2.0
"""The plugin against a fake of the service. Usage: test_service.py HOST PLUGIN [PATTERN...]"""
import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tests"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from fake_snipara import GOOD_KEY, GOOD_TOKEN, NEW_TOKEN, Snipara  # noqa: E402
from tap import main, skip  # noqa: E402

COMMAND = [sys.argv.pop(1), sys.argv.pop(1)] if len(sys.argv) > 2 else []
OPTIONS = {"option:timeout": "30000", "option:max_result": "65536", "option:retries": "2"}
READING = ["snipara_context_query", "snipara_search", "snipara_sections", "snipara_read", "snipara_shared_context"]
MEMORY = ["snipara_remember", "snipara_recall", "snipara_memories", "snipara_forget"]
TIMEOUT = 120


def time_from_now(**delta):
    return (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(**delta)).isoformat()


class Host:
    """The plugin in a host of its own."""

    def __init__(self, words, env):
        self.process = subprocess.Popen([*COMMAND, *(f"{name}={value}" for name, value in words.items())],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, env=env)
        self.answers, self.log, self.lines, self.last = {}, [], [], 0
        self.arrived = threading.Condition()
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            message = json.loads(line)
            with self.arrived:
                self.lines.append(line)
                if "log" in message:
                    self.log.append((message["level"], message["log"]))
                else:
                    self.answers[message.get("id")] = message
                self.arrived.notify_all()

    def send(self, what, **more):
        self.last += 1
        self.process.stdin.write(json.dumps({"id": self.last, "do": what, **more}) + "\n")
        self.process.stdin.flush()
        return self.last

    def cancel(self, number):
        self.process.stdin.write(json.dumps({"id": number, "do": "cancel"}) + "\n")
        self.process.stdin.flush()

    def wait(self, number):
        with self.arrived:
            assert self.arrived.wait_for(lambda: number in self.answers, TIMEOUT), (number, self.lines)
            return self.answers[number]

    def ask(self, what, **more):
        return self.wait(self.send(what, **more))

    def call(self, tool="snipara_sections", arguments=None, **more):
        return self.ask("call", tool=tool, arguments=arguments if arguments is not None else {}, **more)

    def finish(self):
        """Ends it; everything that it ever said."""
        if not self.process.stdin.closed:
            self.process.stdin.close()
        code = self.process.wait(TIMEOUT)
        self.reader.join()
        errors = self.process.stderr.read()
        self.process.stdout.close()
        self.process.stderr.close()
        return code, "".join(self.lines) + errors


class Case(unittest.TestCase):
    secrets = [GOOD_TOKEN, NEW_TOKEN, GOOD_KEY]

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="sbx-snipara-")
        self.addCleanup(directory.cleanup)
        self.home = pathlib.Path(directory.name)
        self.service = Snipara()
        self.addCleanup(self.service.close)

    def write_tokens(self, tokens, mode=0o600):
        """As a login writes it: another file in the place of the old one."""
        folder = self.home / ".snipara"
        folder.mkdir(mode=0o700, exist_ok=True)
        fresh = folder / "fresh"
        fresh.write_text(tokens if isinstance(tokens, str) else json.dumps(tokens))
        fresh.chmod(mode)
        os.replace(fresh, folder / "tokens.json")
        return folder / "tokens.json"

    def start(self, slug=None, key=None, token=None, **words):
        """`words`: setting__NAME, option__NAME, env__NAME."""
        given = {"setting:snipara_base_url": self.service.base, "env:HOME": str(self.home), **OPTIONS}
        given.update({name.replace("__", ":", 1): value for name, value in words.items()})
        if slug:
            given["setting:snipara_project_slug"] = slug
        if key:
            given["setting:snipara_api_key"] = given["env:SNIPARA_API_KEY"] = key
        if token:
            self.write_tokens({"proj_1": {"access_token": token, "project_slug": slug or "normal",
                                          "expires_at": time_from_now(hours=1)}})
        env = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        host = Host(given, env | self.more_environment)
        self.addCleanup(self.check_end, host)
        return host

    more_environment = {}

    def check_end(self, host):
        code, said = host.finish()
        self.assertEqual(code, 0, said)
        for secret in self.secrets:
            self.assertNotIn(secret, said)
        self.assertEqual(self.service.broken, [])

    def text(self, answer):
        self.assertEqual(answer["code"], 0, answer)
        self.assertFalse(answer["result"]["isError"], answer)
        return "".join(block["text"] for block in answer["result"]["content"])

    def fails(self, answer, kind, *says):
        self.assertEqual(answer["code"], 0, answer)
        result = answer["result"]
        self.assertTrue(result["isError"], answer)
        facts = result["_meta"]["snipara-sandbox/error"]
        self.assertEqual(facts["kind"], kind, answer)
        text = result["content"][0]["text"]
        self.assertTrue(text.startswith("Error: "), text)
        self.assertGreaterEqual(len(text.splitlines()), 2, text)  # a hint
        for part in says:
            self.assertIn(part, text)
        return facts


class Credentials(Case):
    def sent(self):
        headers = self.service.requests[-1].headers
        return headers.get("Authorization"), headers.get("X-API-Key")

    def test_token_comes_before_keys(self):
        host = self.start("normal", token=GOOD_TOKEN, key="other-key-1234")
        self.text(host.call())
        self.assertEqual(self.sent(), ("Bearer " + GOOD_TOKEN, None))
        self.assertEqual(self.service.requests[-1].slug, "normal")

    def test_environment(self):
        host = self.start("normal", env__SNIPARA_API_KEY=GOOD_KEY)
        self.text(host.call())
        self.assertEqual(self.sent(), (None, GOOD_KEY))

    def test_variable_and_setting_are_told_apart(self):
        host = self.start("normal", key=GOOD_KEY)
        self.text(host.call())
        self.assertIn("SNIPARA_API_KEY", host.ask("probe")["result"][0][2])

    def test_configuration(self):
        host = self.start("normal", setting__snipara_api_key=GOOD_KEY)
        self.text(host.call())
        self.assertEqual(self.sent(), (None, GOOD_KEY))
        self.assertIn("setting snipara_api_key", host.ask("probe")["result"][0][2])

    def test_expired_token_yields_to_the_key(self):
        self.write_tokens({"p": {"access_token": "old", "project_slug": "normal",
                                 "expires_at": time_from_now(hours=-1)}})
        host = self.start("normal", key=GOOD_KEY)
        self.text(host.call())
        self.assertEqual(self.sent(), (None, GOOD_KEY))

    def test_expired_token_alone(self):
        self.write_tokens({"p": {"access_token": "old", "project_slug": "normal",
                                 "expires_at": "2020-01-01T00:00:00"}})
        host = self.start()
        self.assertEqual(host.ask("tools")["result"], [])
        self.assertTrue(any(level == 2 and "expired" in line and "snipara-mcp-login" in line
                            for level, line in host.log), host.log)
        self.fails(host.call(), "no_credentials", "expired", "snipara-mcp-login")
        self.assertEqual(self.service.requests, [])

    def test_project_chooses_the_token(self):
        def entry(number, **more):
            return {"access_token": f"token-of-{number}", "project_slug": f"project-{number}", **more}
        self.write_tokens({"id_1": entry(1, expires_at=time_from_now(hours=-1)), "id_2": entry(2),
                           "id_3": entry(3, expires_at=time_from_now(hours=1).replace("+00:00", ""))})
        for wanted, chosen in ((None, 2), ("project-2", 2), ("project-3", 3), ("id_3", 3)):
            self.service.accepted = {f"token-of-{chosen}"}
            with self.subTest(wanted=wanted):
                host = self.start(wanted)
                self.text(host.call())
                self.assertEqual(self.service.requests[-1].slug, f"project-{chosen}")
        host = self.start("project-4")
        self.assertEqual(host.ask("tools")["result"], [])

    def test_project_of_a_token_without_slug(self):
        self.write_tokens({"key": {"access_token": GOOD_TOKEN, "project_id": "from-id"}})
        self.text(self.start().call())
        self.assertEqual(self.service.requests[-1].slug, "from-id")

    def test_file_is_read_again_when_it_changes(self):
        host = self.start(token=GOOD_TOKEN)
        self.text(host.call())
        self.service.accepted = {NEW_TOKEN}
        self.write_tokens({"proj_1": {"access_token": NEW_TOKEN, "project_slug": "normal"}})
        self.text(host.call())
        self.assertEqual([request.headers["Authorization"] for request in self.service.requests],
                         ["Bearer " + GOOD_TOKEN, "Bearer " + NEW_TOKEN])

    def test_token_is_renewed_while_a_call_is_under_way(self):
        host = self.start("normal", token=GOOD_TOKEN)
        test = self

        class Accepted(set):
            """At the first question, another program has renewed the token already."""

            def __contains__(self, secret):
                if secret == GOOD_TOKEN:
                    test.write_tokens({"proj_1": {"access_token": NEW_TOKEN, "project_slug": "normal"}})
                return secret == NEW_TOKEN
        self.service.accepted = Accepted()
        self.text(host.call("snipara_remember", {"content": "x"}))
        self.assertEqual(self.service.count("normal"), 2)

    def test_refused_token(self):
        self.service.accepted = set()
        facts = self.fails(self.start("normal", token=GOOD_TOKEN).call(), "unauthorized", "OAuth token",
                           "snipara-mcp-login", "****")
        self.assertEqual(facts["http_status"], 401)
        self.assertEqual(self.service.count("normal"), 1)  # it had not been renewed: no second try

    def test_refused_key(self):
        self.service.accepted = set()
        self.fails(self.start("normal", key=GOOD_KEY).call(), "unauthorized", "SNIPARA_API_KEY", "dashboard")
        self.fails(self.start("normal", setting__snipara_api_key=GOOD_KEY).call(), "unauthorized",
                   "setting snipara_api_key")

    def test_nothing(self):
        host = self.start()
        self.assertEqual(host.ask("tools")["result"], [])
        self.assertEqual([level for level, _ in host.log], [3])
        self.fails(host.call(), "no_credentials", "snipara-mcp-login", "SNIPARA_API_KEY")
        self.assertEqual(host.ask("probe")["code"], 0)
        self.assertEqual(self.service.requests, [])

    def test_key_without_project(self):
        host = self.start(key=GOOD_KEY)
        self.assertEqual(host.ask("tools")["result"], [])
        self.assertIn("SNIPARA_PROJECT_SLUG", host.log[-1][1])

    def test_hostile_slugs(self):
        for slug in ("../admin", "a/b", "a?b", "a#b", "..", "a b", "ä", "x" * 129, "a%2e", "a\\b"):
            with self.subTest(slug=slug):
                self.fails(self.start(slug, key=GOOD_KEY).call(), "no_credentials", "slug")
                self.write_tokens({"p": {"access_token": GOOD_TOKEN, "project_slug": slug}})
                self.fails(self.start().call(), "no_credentials", "slug")
                self.home.joinpath(".snipara/tokens.json").unlink()
        self.assertEqual(self.service.requests, [])

    def test_hostile_secrets(self):
        self.fails(self.start("normal", key="a\r\nX-Evil: 1").call(), "no_credentials", "can't be sent")
        self.write_tokens({"p": {"access_token": "a\r\nX-Evil: 1", "project_slug": "normal"}})
        self.fails(self.start().call(), "no_credentials")
        self.assertEqual(self.service.requests, [])

    def test_odd_files(self):
        for content in ("", "{", "[]", "null", '{"a": 1}', '{"a": {"access_token": 7}}', "\xff\xfe", "x" * (2 << 20)):
            with self.subTest(content=content[:20]):
                self.write_tokens(content)
                host = self.start("normal", key=GOOD_KEY)
                self.text(host.call())  # the key does
                self.assertTrue(any(level == 2 for level, _ in host.log) or content == "{}", host.log)

    def test_file_of_odd_kind(self):
        path = self.write_tokens({})
        path.unlink()
        os.mkfifo(path)
        host = self.start("normal", key=GOOD_KEY)
        self.text(host.call())
        self.assertIn("not a regular file", host.log[-1][1])
        path.unlink()
        path.mkdir()
        self.text(self.start("normal", key=GOOD_KEY).call())

    def test_modes(self):
        tokens = {"p": {"access_token": GOOD_TOKEN, "project_slug": "normal"}}
        self.write_tokens(tokens, 0o644)
        host = self.start()
        self.text(host.call())
        self.assertTrue(any(level == 2 and "chmod 600" in line for level, line in host.log), host.log)
        self.write_tokens(tokens, 0o666)
        host = self.start()
        self.fails(host.call(), "no_credentials")
        self.assertIn("written by everybody", host.log[-1][1])

    def test_plain_http_elsewhere(self):
        for base in ("http://example.com/mcp", "http://127.0.0.1.example.com/", "http://10.0.0.1/",
                     "http://localhost@example.com/", "ftp://127.0.0.1/", "https://u:p@example.com/",
                     "https://example.com/?x=", "https:///mcp", "http://127.0.0.1\n/", "http://[::2]/"):
            with self.subTest(base=base):
                done = subprocess.run([*COMMAND, f"setting:snipara_base_url={base}"], capture_output=True, text=True,
                                      stdin=subprocess.DEVNULL, timeout=TIMEOUT, check=False)
                self.assertEqual(done.returncode, 1, done)
                self.assertIn("SNIPARA_BASE_URL", json.loads(done.stdout)["hint"])
        for base in ("http://localhost:1/", "http://[::1]:1/mcp", "HTTP://127.9.9.9/", "https://example.com/mcp///"):
            done = subprocess.run([*COMMAND, f"setting:snipara_base_url={base}"], capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL, timeout=TIMEOUT, check=False)
            self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_option_wins_over_the_setting(self):
        host = self.start("normal", key=GOOD_KEY, option__base_url=self.service.base + "//",
                          setting__snipara_base_url="http://127.0.0.1:1/")
        self.text(host.call())

    def test_no_proxy_for_this_machine(self):
        proxy = Snipara()
        self.addCleanup(proxy.close)
        self.more_environment = {name: f"http://127.0.0.1:{proxy.server_port}"
                                 for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")}
        self.text(self.start("normal", key=GOOD_KEY).call())
        self.assertEqual((proxy.requests, proxy.broken), ([], []))


class Https(Case):
    def test_certificates_are_checked(self):
        if not shutil.which("openssl"):
            skip("openssl, which makes the certificate, is not installed")
        certificate = self.home / "certificate.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=fake",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", self.home / "key.pem",
                        "-out", certificate], capture_output=True, timeout=TIMEOUT, check=True)
        both = self.home / "both.pem"
        both.write_text(certificate.read_text() + (self.home / "key.pem").read_text())
        secure = Snipara(both)
        self.addCleanup(secure.close)
        words = {"setting__snipara_base_url": secure.base}
        self.text(self.start("normal", token=GOOD_TOKEN, option__ca_file=str(certificate), **words).call())
        self.assertEqual(secure.requests[-1].headers["Authorization"], "Bearer " + GOOD_TOKEN)
        self.fails(self.start("normal", token=GOOD_TOKEN, **words).call(), "unreachable")
        self.assertEqual(len(secure.requests), 1)  # nobody heard of the token


class Tools(Case):
    def names(self, host):
        return [tool["name"] for tool in host.ask("tools")["result"]]

    def test_which_are_offered(self):
        self.assertEqual(self.names(self.start("normal", key=GOOD_KEY)), READING)
        self.assertEqual(self.names(self.start("normal", key=GOOD_KEY, setting__memory_enabled="true")),
                         READING + MEMORY)
        self.assertEqual(self.names(self.start("normal", key=GOOD_KEY, setting__memory_enabled="false")), READING)
        self.assertEqual(self.names(self.start("normal", token=GOOD_TOKEN)), READING + MEMORY)

    def test_definitions(self):
        defaults = {}
        for tool in self.start("normal", token=GOOD_TOKEN).ask("tools")["result"]:
            name, schema, hints = tool["name"], tool["inputSchema"], tool["annotations"]
            self.assertLessEqual(len(tool["description"]), 500)
            self.assertFalse(schema["additionalProperties"])
            self.assertLessEqual(set(schema["required"]), set(schema["properties"]))
            self.assertEqual(tool["_meta"]["snipara-sandbox/aliases"], [name.replace("snipara_", "rlm_")])
            self.assertEqual(hints["readOnlyHint"], name not in ("snipara_remember", "snipara_forget"))
            self.assertEqual(hints["destructiveHint"], name == "snipara_forget")
            self.assertTrue(hints["openWorldHint"])
            for key, property_ in schema["properties"].items():
                self.assertTrue(property_["description"])
                if "default" in property_:
                    defaults[name, key] = property_["default"]
        self.assertEqual(defaults, {
            ("snipara_context_query", "max_tokens"): 2000, ("snipara_context_query", "search_mode"): "hybrid",
            ("snipara_context_query", "prefer_summaries"): False, ("snipara_context_query", "include_metadata"): True,
            ("snipara_search", "max_results"): 20, ("snipara_sections", "limit"): 20, ("snipara_sections", "offset"): 0,
            ("snipara_shared_context", "max_tokens"): 2000, ("snipara_shared_context", "include_content"): True,
            ("snipara_remember", "type"): "fact", ("snipara_remember", "scope"): "project",
            ("snipara_recall", "limit"): 5, ("snipara_recall", "min_relevance"): 0.5,
            ("snipara_memories", "limit"): 20, ("snipara_memories", "offset"): 0})

    def test_arguments_go_out_as_they_are(self):
        host = self.start("normal", key=GOOD_KEY)
        sent = {"query": "how \u00e4 \"x\" \u0000 \n?", "max_tokens": 100, "search_mode": "keyword",
                "prefer_summaries": True, "include_metadata": None}
        answer = json.loads(self.text(host.call("snipara_context_query", sent)))
        del sent["include_metadata"]  # null is the same as left out
        self.assertEqual(answer, {"tool": "rlm_context_query", "arguments": sent})

    def test_every_tool(self):
        host = self.start("normal", token=GOOD_TOKEN)
        for name in READING + MEMORY:
            arguments = {"snipara_read": {"start_line": 1, "end_line": 5},
                         "snipara_forget": {"memory_id": "m"}}.get(name, {"query": "x"})
            answer = json.loads(self.text(host.call(name, arguments)))
            self.assertEqual(answer, {"tool": name.replace("snipara_", "rlm_"), "arguments": arguments})

    def test_read_takes_200_lines(self):
        host = self.start("normal", key=GOOD_KEY)
        for start, end, sent in ((1, 200, 200), (1, 201, 200), (100, 10**15, 299), (7, 7, 7)):
            answer = json.loads(self.text(host.call("snipara_read", {"start_line": start, "end_line": end})))
            self.assertEqual(answer["arguments"], {"start_line": start, "end_line": sent})
        for start, end in ((5, 4), (0, 9), (-(2**63), 2**63 - 1)):
            self.fails(host.call("snipara_read", {"start_line": start, "end_line": end}), "arguments")

    def test_forget_needs_a_filter(self):
        host = self.start("normal", token=GOOD_TOKEN)
        self.fails(host.call("snipara_forget", {"memory_id": None, "type": None}), "arguments", "memory_id")
        self.assertEqual(self.service.requests, [])

    def test_no_such_tool(self):
        host = self.start("normal", key=GOOD_KEY)
        self.assertEqual(host.call("execute_python")["code"], -2)
        self.assertEqual(host.call(arguments=[])["code"], -22)

    def test_large_arguments(self):
        host = self.start("normal", key=GOOD_KEY)
        self.fails(host.call("snipara_search", {"pattern": "x" * (5 << 20)}), "arguments")
        self.assertEqual(self.service.requests, [])


class Answers(Case):
    def host(self, slug, **words):
        return self.start(slug, key=GOOD_KEY, **words)

    def test_statuses(self):
        self.fails(self.host("forbidden").call(), "forbidden", "'forbidden'", "not a member of the team", "403")
        self.fails(self.host("missing").call(), "not_found", "'missing'", "no such project", "SNIPARA_PROJECT_SLUG")
        self.fails(self.host("invalid-argument").call(), "refused", "422", "max_tokens too large")
        facts = self.fails(self.host("redirect").call(), "invalid_answer", "307", "redirects")
        self.assertEqual(facts["http_status"], 307)
        self.assertEqual(self.service.count("normal"), 0)

    def test_rate_limit(self):
        facts = self.fails(self.host("limited").call(), "rate_limited", "3600 seconds")
        self.assertEqual((facts["http_status"], facts["retry_after_ms"]), (429, 3600000))
        self.assertEqual(self.service.count("limited"), 1)  # an hour is too long to wait

    def test_asks_again(self):
        self.assertEqual(self.text(self.host("busy-once").call()), "after a rest")
        self.assertEqual(self.service.count("busy-once"), 2)
        self.fails(self.host("broken").call(), "server_error", "boom", "500")
        self.assertEqual(self.service.count("broken"), 3)
        self.fails(self.host("broken", option__retries="0").call(), "server_error")
        self.assertEqual(self.service.count("broken"), 4)

    def test_what_changes_something_is_sent_once(self):
        host = self.start("broken", token=GOOD_TOKEN)
        self.fails(host.call("snipara_remember", {"content": "x"}), "server_error", "snipara_memories")
        self.fails(host.call("snipara_forget", {"memory_id": "x"}), "server_error", "snipara_memories")
        self.assertEqual(self.service.count("broken"), 2)

    def test_hang(self):
        host = self.host("hang", option__timeout="300")
        self.fails(host.call(), "timeout", "0.3 seconds")
        self.fails(host.call("snipara_remember", {"content": "x"}), "timeout", "snipara_memories")

    def test_deadline_of_the_caller(self):
        answer = self.host("hang").call(deadline_ms=200)
        self.assertEqual(answer["code"], -110, answer)
        self.assertIn("time was over", answer["error"]["message"])

    def test_cancel(self):
        host = self.host("hang")
        first, second = (host.send("call", tool="snipara_sections", arguments={}) for _ in range(2))
        self.service.wait_for("hang", 2)
        host.cancel(second)
        self.assertEqual(host.wait(second)["code"], -125)
        self.assertNotIn(first, host.answers)
        host.cancel(first)
        self.assertEqual(host.wait(first)["code"], -125)

    def test_cancel_while_waiting_to_ask_again(self):
        host = self.host("busy-long")
        number = host.send("call", tool="snipara_sections", arguments={})
        self.service.wait_for("busy-long")
        host.cancel(number)
        self.assertEqual(host.wait(number)["code"], -125)
        self.assertEqual(self.service.count("busy-long"), 1)

    def test_no_wait_beyond_the_time(self):
        facts = self.fails(self.host("busy-long", option__timeout="5000").call(), "server_error", "9 seconds")
        self.assertEqual(facts["retry_after_ms"], 9000)
        self.assertEqual(self.service.count("busy-long"), 1)

    def test_drip(self):
        self.fails(self.host("drip", option__timeout="600").call(), "timeout")

    def test_cut_off(self):
        self.fails(self.host("cut").call(), "unreachable")

    def test_huge(self):
        self.fails(self.host("huge").call(), "too_large", "max_tokens")
        self.assertLess(self.service.huge_bytes, 50 << 20)

    def test_unreachable(self):
        self.fails(self.host("normal", setting__snipara_base_url="http://127.0.0.1:1/mcp").call(), "unreachable",
                   "127.0.0.1")

    def test_rubbish(self):
        for slug, says in (("page", "HTML"), ("rubbish", "not valid JSON"), ("empty", "empty"),
                           ("nothing", "neither a result nor an error"), ("deep", "nested"), ("many", "values")):
            with self.subTest(slug=slug):
                self.fails(self.host(slug, option__max_result="1048576").call(), "invalid_answer", says,
                           "SNIPARA_BASE_URL")

    def test_invalid_utf8(self):
        self.assertEqual(self.text(self.host("invalid-utf8").call()), "caf\ufffd \ufffd\u00e9")

    def test_errors_of_the_service(self):
        self.fails(self.host("rpc-error").call(), "refused", "not a regular expression", "-32602")
        answer = self.host("tool-error").call()
        self.assertEqual(answer["result"], {"content": [{"type": "text", "text": "the index is being built"}],
                                            "isError": True})

    def test_blocks(self):
        content = self.host("blocks").call()["result"]["content"]
        self.assertEqual([block["text"] for block in content[:2]], ["one", "two"])
        self.assertIn("3 parts", content[2]["text"])

    def test_result_without_content(self):
        self.assertEqual(json.loads(self.text(self.host("plain").call())), {"sections": [{"title": "A"}], "total": 1})

    def test_long_text_is_clipped(self):
        content = self.host("long").call()["result"]["content"]
        self.assertEqual(content[0]["text"], "ä" * 32768)
        self.assertIn(f"[{200000 - 65536} bytes more", content[1]["text"])

    def test_credentials_do_not_come_back(self):
        self.assertIn("****", self.text(self.host("echo-secret").call()))
        self.assertIn("Bearer ****", self.text(self.start("echo-secret", token=GOOD_TOKEN).call()))

    def test_results_are_data(self):
        host = self.host("injection")
        first = host.call("snipara_search", {"pattern": "x"})
        self.assertEqual(list(first["result"]), ["content", "isError"])
        self.assertIn("IGNORE", self.text(first))
        host.call("snipara_search", {"pattern": "x"})
        self.assertEqual(*(request.body for request in self.service.requests))
        self.assertEqual([request.slug for request in self.service.requests], ["injection"] * 2)

    def test_calls_run_side_by_side(self):
        hanging = self.host("hang")
        numbers = [hanging.send("call", tool="snipara_sections", arguments={}) for _ in range(20)]
        self.service.wait_for("hang", 20)
        for number in numbers:
            hanging.cancel(number)
        self.assertEqual({hanging.wait(number)["code"] for number in numbers}, {-125})

    def test_probe(self):
        reports = self.start("normal", token=GOOD_TOKEN).ask("probe")
        self.assertEqual([report[:2] for report in reports["result"]], [[0, "credential"], [0, "service"]])
        self.assertIn("'normal'", reports["result"][0][2])
        self.assertIn("valid until", reports["result"][0][2])
        self.service.accepted = set()
        reports = self.start("normal", token=GOOD_TOKEN).ask("probe")
        self.assertLess(reports["code"], 0)
        self.assertEqual(reports["result"][1][0], 2)
        self.assertIn("snipara-mcp-login", reports["result"][1][3])
        for slug, status, code in (("missing", 2, -74), ("limited", 1, 0), ("broken", 1, 0)):
            reports = self.start(slug, key=GOOD_KEY).ask("probe")
            self.assertEqual((reports["result"][1][0], reports["code"]), (status, code), reports)
        self.write_tokens("{")
        reports = self.start().ask("probe")
        self.assertEqual(reports["result"][0][:2], [1, "tokens"])


if __name__ == "__main__":
    main()
