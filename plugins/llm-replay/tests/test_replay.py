# SPDX-License-Identifier: Apache-2.0
"""Which answer a request gets, and what is in it."""
import json

import tap
from replay import RUN, Case, Conversation, call_id, event, metadata

ENOENT, EINVAL, EREMOTEIO, EBADMSG, ETIMEDOUT, ECANCELED, EEXIST, EFBIG = -2, -22, -121, -74, -110, -125, -17, -27


class Answers(Case):
    def test_a_text(self):
        replay = self.replay(metadata(), event(3, "hello", "hi ü", model="gpt-4o-mini-2024", finish_reason="length",
                                               estimated_cost_usd=0.25), metadata())
        response = replay.answer("hello")
        self.assertEqual(response["object"], "chat.completion")
        self.assertEqual(response["model"], "gpt-4o-mini-2024")
        self.assertEqual(response["choices"], [{"index": 0, "finish_reason": "length",
                                                "message": {"role": "assistant", "content": "hi ü"}}])
        self.assertEqual(response["usage"], {"prompt_tokens": 30, "completion_tokens": 3, "total_tokens": 33,
                                             "cost_usd": 0.25})

    def test_tool_calls_and_an_unknown_price(self):
        replay = self.replay(event(1, "do", calls=[("a", "execute_python", {"code": "1\n+ä"}),
                                                   ("b", "list_files", {})]))
        response = replay.answer("do")
        self.assertEqual(response["model"], "openai/gpt-4o-mini")
        choice = response["choices"][0]
        self.assertEqual(choice["finish_reason"], "tool_calls")
        self.assertIsNone(choice["message"]["content"])
        calls = choice["message"]["tool_calls"]
        self.assertEqual([(call["id"], call["type"], call["function"]["name"]) for call in calls],
                         [("a", "function", "execute_python"), ("b", "function", "list_files")])
        self.assertEqual(json.loads(calls[0]["function"]["arguments"]), {"code": "1\n+ä"})
        self.assertIsNone(response["usage"]["cost_usd"])

    def test_arguments_that_could_not_be_read_fail_again(self):
        broken = event(1, "do")
        broken["tool_calls"] = [{"id": "a", "name": "t", "error": "They began with: {"}]
        arguments = self.replay(broken).answer("do")["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
        self.assertRaises(ValueError, json.loads, arguments)

    def test_a_stream_adds_up_to_the_answer(self):
        text = "Grüße, " * 5000
        replay = self.replay(event(1, "do", text, calls=[("a", "t", {"x": 1}), ("b", "u", {})]),
                             event(2, "short", "ok"))
        response = replay.answer("do", "stream ")
        deltas = [chunk["choices"][0]["delta"] for chunk in replay.deltas if chunk["choices"]]
        self.assertTrue(all(chunk["object"] == "chat.completion.chunk" and chunk["id"] == response["id"]
                            for chunk in replay.deltas))
        self.assertEqual(deltas[0], {"role": "assistant"})
        self.assertEqual("".join(delta.get("content", "") for delta in deltas), text)
        self.assertGreater(len(deltas), 10)
        calls = [call for delta in deltas for call in delta.get("tool_calls", [])]
        self.assertEqual([call.pop("index") for call in calls], [0, 1])
        self.assertEqual(calls, response["choices"][0]["message"]["tool_calls"])
        self.assertEqual([chunk["choices"][0]["finish_reason"] for chunk in replay.deltas if chunk["choices"]][-1],
                         "tool_calls")
        self.assertEqual(replay.deltas[-1]["usage"], response["usage"])
        replay.answer("short")
        self.assertEqual(replay.deltas, [])

    def test_an_error_is_an_error_again(self):
        replay = self.replay(event(1, "a", error="HTTP 500"), event(2, "b", error="cut", response="partly"),
                             event(3, "", too_large=True))
        result, message, _, _ = replay.request("a")
        self.assertEqual(result, EREMOTEIO)
        self.assertIn("(line 1): HTTP 500", message)
        self.assertEqual(replay.text("b"), "partly")
        self.assertEqual(replay.request("")[0], EBADMSG)


class Strict(Case):
    def test_prompts_in_any_order(self):
        replay = self.replay(*(event(number, f"prompt {number}", f"answer {number}") for number in range(1, 20)))
        for number in (7, 3, 19, 1):
            self.assertEqual(replay.text(f"prompt {number}"), f"answer {number}")

    def test_what_is_not_there(self):
        replay = self.replay(event(1, "one", "1"), event(2, "two\n" + "ä" * 200, "2"))
        self.assertEqual(replay.text("one"), "1")
        result, message, hint, _ = replay.request("three" * 100)
        self.assertEqual(result, ENOENT)
        self.assertIn('no answer to "' + "three" * 16 + '..."', message)
        self.assertIn('next it has "two ' + "ä" * 38 + '..." (line 2)', message)
        self.assertIn("order", hint)
        replay.text("two\n" + "ä" * 200)
        result, message, _, _ = replay.request("three")
        self.assertEqual(result, ENOENT)
        self.assertIn("all its 2 answers were given", message)

    def test_what_differs_is_shown_and_of_the_same_turn(self):
        replay = self.replay(event(1, "other", "never asked"),
                             event(2, "task", None, [("c", "t", {})], key="1.1.model"),
                             event(3, "ü" * 400 + "recorded", "end", key="1.2.model"))
        run = Conversation(replay, "task")
        run.ask()
        run.result("ü" * 400 + "asked")
        result, message, _, _ = replay.request(run.messages)
        self.assertEqual(result, ENOENT)
        self.assertIn('no answer to "...' + "ü" * 10 + 'asked"; next it has "...' + "ü" * 10 + 'recorded" (line 3)',
                      message)

    def test_one_prompt_with_several_answers(self):
        replay = self.replay(event(9, "task", "done"), *(event(n, "classify", f"class {n}") for n in range(1, 4)))
        replay.text("task")
        self.assertEqual([replay.text("classify") for _ in range(4)], ["class 1", "class 2", "class 3", "class 1"])
        replay.text("task")  # another run begins
        self.assertEqual(replay.text("classify"), "class 1")

    def test_a_conversation_with_the_same_result_again_and_again(self):
        turns = [event(1, "task", "a", [("c", "t", {})], key="1.model"),
                 event(2, "ok", "b", [("c", "t", {})], key="2.model"),
                 event(3, "ok", None, [("c", "t", {})], key="3.model"),
                 event(4, "ok", "d", key="4.model")]
        turns = [dict(turn, key=f"1.{index}.model") for index, turn in enumerate(turns, 1)]
        replay = self.replay(*turns)
        # Three runs at once, each at its own pace, in the same process.
        runs = [Conversation(replay, "task") for _ in range(3)]
        said = {0: [], 1: [], 2: []}
        for run in (0, 1, 0, 0, 2, 1, 2, 1, 0, 2, 2, 1):
            if said[run]:
                runs[run].result("ok")
            said[run].append(runs[run].ask()["content"])
        self.assertEqual(said, {run: ["a", "b", None, "d"] for run in range(3)})

    def test_sub_calls_that_ask_the_same_and_go_on_differently(self):
        lines = []
        for batch in range(2):
            key = f"1.1.t0.c0.q{batch}"
            lines += [event(10 + batch * 2, "look", None, [(f"id{batch}", "t", {})], parent=5, key=key + ".1.model"),
                      event(11 + batch * 2, "same result", f"end {batch}", parent=5, key=key + ".2.model")]
        replay = self.replay(*lines, event(1, "task", "x", key="1.1.model"))
        first, second = Conversation(replay, "look"), Conversation(replay, "look")
        first.ask(), second.ask()
        second.result("same result"), first.result("same result")
        self.assertEqual(second.ask()["content"], "end 1")
        self.assertEqual(first.ask()["content"], "end 0")

    def test_blocks_of_text(self):
        replay = self.replay(event(1, "a b", "ok"))
        blocks = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "x"}},
                  {"type": "text", "text": "b"}]
        self.assertEqual(replay.text([{"role": "user", "content": blocks}]), "ok")

    def test_a_failure_that_was_made_good_is_passed_over(self):
        replay = self.replay(event(1, "task", "first", [("c", "t", {})], key="1.1.model"),
                             event(2, "ok", error="no network", key="1.2.model.failed"),
                             event(3, "ok", "second", key="1.2.model"))
        run = Conversation(replay, "task")
        run.ask()
        run.result("ok")
        self.assertEqual(run.ask()["content"], "second")
        self.assertEqual(replay.text("ok"), "second")

    def test_from_many_threads(self):
        replay = self.replay(event(1, "task", "x"), *(event(n, "same", str(n)) for n in range(2, 50)))
        result, message, _, _ = replay.request("same", "threads ")
        self.assertEqual((result, message), (0, "0 of 320 failed"))
        result, message, _, _ = replay.request("other", "threads ")
        self.assertEqual((result, message), (0, "320 of 320 failed"))


class Order(Case):
    def test_one_after_another_whatever_is_asked(self):
        # As it is written: a call after those of the code that it ran.
        replay = self.replay(
            metadata(), event(3, "sub one", "2", parent=7, depth=1), event(7, "", parent=6, name="tool_call"),
            event(4, "sub two", "3", parent=8, depth=1), event(8, "", parent=6, name="tool_call"),
            event(6, "print(1)", "1", parent=1, name="execution"), event(1, "task", "1"), event(5, "result", "4"),
            options=["--match=order"])
        self.assertEqual([replay.text("whatever") for _ in range(4)], ["1", "2", "3", "4"])
        result, message, _, _ = replay.request("more")
        self.assertEqual(result, ENOENT)
        self.assertIn("all its 4 answers were given", message)
        self.assertEqual([replay.text("task"), replay.text("x")], ["1", "2"])  # a run like the recorded one begins anew

    def test_ids_in_circles(self):
        lines = [event(1, "a", "1", parent=2), event(2, "b", "2", parent=3), event(3, "c", "3", parent=1),
                 event(4, "d", "4", parent=4), event(5, "e", "5", parent=99), event(5, "f", "6", parent=5)]
        replay = self.replay(*lines, options=["--match=order"])
        self.assertEqual(sorted(replay.text("x") for _ in range(6)), list("123456"))


class OfThePythonProgram(Case):
    """Lines of 2.2.7 have no "event", and the next turn is a child of the one before."""

    def lines(self):
        return [metadata(), event(1, "task", None, [("call_1", "execute_python", {"code": "1"})], name=None),
                event(2, "1", None, [("call_1", "execute_python", {"code": "2"})], parent=1, depth=1, name=None),
                event(3, "1", "done", parent=2, depth=2, name=None)]

    def test_strict(self):
        replay = self.replay(*self.lines())
        for _ in range(2):
            run = Conversation(replay, "task")
            run.ask()
            run.result("1")
            self.assertEqual(run.ask()["tool_calls"][0]["function"]["arguments"], '{"code":"2"}')
            run.result("1")
            self.assertEqual(run.ask()["content"], "done")

    def test_in_order(self):
        replay = self.replay(*self.lines(), options=["--match=order"])
        self.assertEqual([replay.answer("x")["choices"][0]["message"]["content"] for _ in range(3)],
                         [None, None, "done"])


class Files(Case):
    def test_by_id(self):
        other = "0193d7b2-ffff-7e11-8a01-0123456789ab"
        self.record(event(1, "p", "this"), name=f"{RUN}.jsonl")
        self.record(event(1, "p", "other"), name=f"{other}.jsonl")
        self.record(event(1, "p", "no"), name="notes.jsonl")
        for options, expected in ((["--trajectory=0193D7B2-4"], "this"), ([f"--trajectory={other}"], "other")):
            self.assertEqual(self.open(*options, f"@log_dir={self.directory}").text("p"), expected)
        replay = self.open("--trajectory=0193d7b2-f", f"@log_dir={self.directory.name}",
                           f"%project={self.directory.parent}")
        self.assertEqual(replay.text("p"), "other")
        for given, code, says in (("0193d7b2", EEXIST, "several"), ("abcd", ENOENT, "begins with abcd"),
                                  ("../../etc/passwd", EINVAL, "not the id"), ("abc", EINVAL, "not the id")):
            replay = self.open(f"--trajectory={given}", f"@log_dir={self.directory}", start=False)
            result, message, hint, _ = replay.send("start")
            self.assertEqual(result, code)
            self.assertIn(says, message)
            self.assertTrue(hint)

    def test_options_that_contradict(self):
        for options in ([], ["--file=a", "--trajectory=b"]):
            self.assertEqual(self.open(*options, start=False).opened[0], EINVAL)

    def refused(self, path, code, says, *options):
        replay = self.open(f"--file={path}", *options, start=False)
        for command in ("start", "probe", "start"):
            result, message, hint, _ = replay.send(command)
            self.assertEqual(result, code, message)
            self.assertIn(says, message)
            self.assertTrue(hint)

    def test_files_of_any_quality(self):
        good = event(1, "p", "a")
        for lines, says in (([], "holds no call"), ([metadata()], "holds no call"), ([good, b"not json\n"], "line 2"),
                            ([b"[1]\n"], "line 1"), ([b'{"a": "\xff"}\n'], "not UTF-8"),
                            ([b'{"a":1,"a":2}\n'], "twice"),
                            ([b'{"a":' + b"[" * 100 + b"]" * 100 + b"}\n"], "nested"),
                            ([b'{"a":[' + b"1," * 1100000 + b"1]}\n"], "too many values"),
                            ([b'{"a":[' + b"[]," * 300000 + b"1]}\n"], "too many values"),
                            ([good, b"\x00\x01\x02\n"], "line 2"),
                            ([event(1, "p", name="execution")], "holds no call")):
            self.refused(self.record(*lines), EBADMSG, says)
        self.refused(self.directory, EINVAL, "no regular file")
        self.refused("/dev/zero", EINVAL, "no regular file")
        self.refused(self.directory / "missing", ENOENT, "missing")
        self.refused(self.record(good, b" " * 3000), EFBIG, "max_size", "--max_size=2k")
        self.refused(self.record(b'{"a":"' + b"x" * (65 << 20) + b'"}\n'), EFBIG, "line 1")

    def test_odd_members_are_passed_over(self):
        odd = [{"call_id": "x"}, {"event": "completion"}, {"event": 5, "call_id": 7},
               {"call_id": "y", "prompt": 5, "response": [], "tool_calls": {"a": 1}, "input_tokens": -5, "error": 9},
               {"call_id": "z", "prompt": "z\u0000z", "response": "nul", "parent_call_id": 5, "input_tokens": 2 ** 62,
                "tool_calls": [5, {"id": 1}, {"id": "i", "name": "n", "arguments": [1]}, {"id": "j", "name": "n"}],
                "estimated_cost_usd": "free", "key": "..model", "finish_reason": 5}]
        replay = self.replay(*odd)
        response = replay.answer([{"role": "user", "content": "z\u0000z"}])
        self.assertEqual([call["function"]["arguments"] for call in response["choices"][0]["message"]["tool_calls"]],
                         ["[1]", "{}"])
        self.assertIsNone(response["usage"]["cost_usd"])

    def test_a_line_that_a_killed_process_left(self):
        replay = self.replay(event(1, "p", "a"), json.dumps(event(2, "q", "b")).encode()[:-20])
        self.assertEqual(replay.text("p"), "a")
        self.assertEqual(replay.request("q")[0], ENOENT)
        whole = self.replay(event(1, "p", "a"), json.dumps(event(2, "q", "b")).encode())  # only the newline is missing
        self.assertEqual(whole.text("q"), "b")

    def test_stop_and_start_again(self):
        path = self.record(event(1, "p", "before"))
        replay = self.open(f"--file={path}")
        self.assertEqual(replay.text("p"), "before")
        self.record(event(1, "p", "after"))
        self.assertEqual(replay.send("stop")[0], 0)
        self.assertEqual(replay.send("start")[0], 0)
        self.assertEqual(replay.text("p"), "after")

    def test_probe(self):
        replay = self.open(f"--file={self.record(event(1, 'p', 'a'), event(2, 'q', 'b'))}", start=False)
        result, message, _, _ = replay.send("probe")
        self.assertEqual(result, 0)
        self.assertIn("has 2 answers", message)


class Requests(Case):
    def test_requests_of_any_quality(self):
        replay = self.replay(event(1, "", "empty"))
        for request in ("{", '{"messages": 5}', "{}", '{"messages": []}', '{"messages":' + "[" * 200,
                        '{"messages": [], "messages": []}'):
            self.assertEqual(replay.send(request if request.startswith("{") else "{")[0], EINVAL, request)
        self.assertEqual(replay.text([5]), "empty")  # a message without words
        self.assertEqual(replay.text([{"role": 7, "content": {"a": 1}}]), "empty")
        self.assertEqual(replay.text([{"role": "assistant"}, {"role": "assistant", "tool_calls": "x"}, {}]), "empty")

    def test_calls_that_have_ended(self):
        for options in ((), ("--delay=30s",)):
            replay = self.replay(event(1, "p", "a"), options=options)
            self.assertEqual(replay.request("p", "late ")[0], ETIMEDOUT)
            self.assertEqual(replay.request("p", "cancelled ")[0], ECANCELED)

    def test_a_delay(self):
        replay = self.replay(event(1, "p", "a"), options=["--delay=30ms"])
        self.assertEqual(replay.text("p"), "a")


tap.main(__name__)
