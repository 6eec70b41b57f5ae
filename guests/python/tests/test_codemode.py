# SPDX-License-Identifier: Apache-2.0
"""Code mode: what the worker sends for llm_query, tools, FINAL and the rest, and what it makes of the answers."""

import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import FILE_LIST, GET, TOOL_CALL, Guest

NAMES = ("FINAL", "FINAL_VAR", "LLMError", "ToolError", "call_tool", "llm_batch", "llm_query", "tools")


def text(content, **more):
    return {"content": [{"type": "text", "text": content}], "isError": False, **more}


class CodeModeTest(unittest.TestCase):
    def setUp(self):
        self.guest = Guest()
        self.addCleanup(self.guest.close)
        self.calls = []
        self.answers = {}

    def answer(self, name, arguments):
        self.calls.append((name, arguments))
        told = self.answers[name]
        if callable(told):
            told = told(arguments)
        if isinstance(told, Exception):
            raise told
        return told

    def run_ok(self, code, **header):
        result = self.guest.run_answering(code, self.answer, **header)
        self.assertEqual(result["end"], "ok", result.get("error"))
        return result

    def value(self, code):
        return eval(self.run_ok(code)["value"])

    def run_error(self, code, kind):
        result = self.guest.run_answering(code, self.answer)
        self.assertEqual((result["end"], result["error"]["type"]), ("error", kind), result)
        return result["error"]["message"]


class QueryTest(CodeModeTest):
    def test_query(self):
        self.answers["llm_query"] = {"response": "four", "tokens_used": 7, "cost": None}
        self.assertEqual(self.value("llm_query('2 + 2?')"), "four")
        self.assertEqual(self.calls, [("llm_query", {"prompt": "2 + 2?"})])
        self.run_ok("llm_query('a', system='s', max_tokens=5, context_query='c')")
        self.assertEqual(
            self.calls[1][1], {"prompt": "a", "system": "s", "max_tokens": 5, "context_query": "c"}
        )

    def test_any_text(self):
        self.answers["llm_query"] = lambda arguments: {"response": arguments["prompt"]}
        self.assertEqual(self.value("llm_query('\\0\\u20ac\\U0001f600\\n') == '\\0\\u20ac\\U0001f600\\n'"), True)
        self.assertEqual(self.value("llm_query('a\\ud800b')"), "a\ufffdb")
        self.assertEqual(self.value("class S(str):\n    pass\nlen(llm_query(S('x' * 1000000)))"), 1000000)

    def test_failure(self):
        self.answers["llm_query"] = RuntimeError("the token budget is used up")
        self.assertEqual(self.run_error("llm_query('a')", "LLMError"), "the token budget is used up")
        self.assertEqual(self.value("try:\n    llm_query('a')\nexcept LLMError as e:\n    s = e.results\n[s]"), [None])

    def test_wrong_arguments(self):
        for code in ("llm_query(5)", "llm_query('a', system=1)", "llm_query('a', max_tokens='1')", "llm_query('a', 'b')",
                     "llm_query('a', max_tokens=True)", "llm_batch('a')", "llm_batch([1])", "llm_batch([{'q': 'a'}])",
                     "llm_batch([{'query': 'a', 'x': 1}])", "llm_query()", "llm_query('a', temperature=0)"):
            self.run_error(code, "TypeError")
        self.run_error("llm_query('a', max_tokens=0)", "ValueError")
        self.assertIn("too large", self.run_error("llm_query('a' * (17 << 20))", "ValueError"))
        self.assertEqual(self.calls, [])

    def test_batch(self):
        self.answers["llm_batch"] = lambda arguments: {
            "results": [{"response": item["query"].upper(), "error": None} for item in arguments["queries"]]
        }
        self.assertEqual(self.value("llm_batch(['a', {'query': 'b', 'system': 't'}], system='s', max_parallel=3)"), ["A", "B"])
        self.assertEqual(
            self.calls[0][1],
            {"queries": [{"query": "a", "system": "s"}, {"query": "b", "system": "t"}], "max_parallel": 3},
        )
        self.assertEqual(self.value("llm_batch(p for p in ('x', 'y'))"), ["X", "Y"])
        self.assertEqual(self.value("llm_batch([])"), [])
        self.assertEqual(len(self.calls), 2)

    def test_batch_with_failures(self):
        self.answers["llm_batch"] = {
            "results": [{"response": "A"}, {"response": None, "error": "cost limit"}, {"response": ""}]
        }
        code = "try:\n    llm_batch(['a', 'b', 'c'])\nexcept LLMError as e:\n    s = [str(e), e.results, e.errors]\ns"
        message, results, errors = self.value(code)
        self.assertEqual(message, "1 of 3 queries failed; the first: cost limit")
        self.assertEqual((results, errors), (["A", None, ""], [None, "cost limit", None]))


class ToolsTest(CodeModeTest):
    def test_values(self):
        image = {"type": "image", "data": "AA==", "mimeType": "image/png"}
        cases = (
            (text('{"a": [1, null]}'), {"a": [1, None]}),
            (text(" 5\n"), 5),
            (text("plain"), "plain"),
            (text("NaN"), "NaN"),
            (text("[1] and more"), "[1] and more"),
            (text("[" * 100000), "[" * 100000),
            (text("shown", structuredContent={"b": 2}), {"b": 2}),
            ({"content": [], "isError": False}, None),
            ({"content": [image], "isError": False}, [image]),
            ({"content": [{"type": "text", "text": "1"}, {"type": "text", "text": "2"}], "isError": False},
             [{"type": "text", "text": "1"}, {"type": "text", "text": "2"}]),
        )
        for told, wanted in cases:
            self.answers["look"] = told
            self.guest.run_answering("found = tools.look(path='x')", self.answer)
            self.answers["check"] = {}
            self.run_ok("call_tool('check', value=found)")
            self.assertEqual(self.calls[-1][1]["value"], wanted)

    def test_raw_result(self):
        self.answers["look"] = text("5")
        self.assertEqual(self.value("call_tool('look')"), text("5"))

    def test_arguments(self):
        self.answers["a-b.c"] = self.answers["name"] = text("1")
        self.assertEqual(self.value("tools['a-b.c'](name='n', self=1, call=[None])"), 1)
        self.assertEqual(self.calls[0], ("a-b.c", {"name": "n", "self": 1, "call": [None]}))
        self.assertEqual(self.value("call_tool('name', name='n')"), text("1"))
        self.assertIn("by name", self.run_error("tools.name('x')", "TypeError"))
        self.assertIn("plain JSON", self.run_error("tools.name(x=object())", "TypeError"))
        self.assertIn("plain JSON", self.run_error("tools.name(x='a' * (17 << 20))", "TypeError"))
        self.run_error("tools['']()", "TypeError")
        self.run_error("tools['x' * 129]()", "TypeError")

    def test_errors(self):
        self.answers["look"] = {"content": [{"type": "text", "text": "Error: no such file"}], "isError": True}
        self.assertEqual(self.run_error("tools.look()", "ToolError"), "Error: no such file")
        self.answers["look"] = RuntimeError("look is not for code")
        self.assertEqual(self.run_error("tools.look()", "ToolError"), "look is not for code")

    def test_listing(self):
        self.answers["__list__"] = {"tools": [{"name": "b", "description": "Does b.\nMore"}, {"name": "a", "description": ""}]}
        self.assertEqual(self.value("dir(tools)"), ["a", "b"])
        shown = self.run_ok("tools")["value"]
        self.assertIn("b: Does b.", shown)
        self.assertNotIn("More", shown)
        self.answers["__list__"] = RuntimeError("busy")
        self.assertEqual(self.run_ok("tools")["value"], "<tools: busy>")

    def test_names_that_libraries_look_for(self):
        self.assertEqual(self.value("[hasattr(tools, n) for n in ('_repr_html_', '__deepcopy__', '__len__')]"), [False] * 3)
        self.assertEqual(self.value("import copy, inspect\ninspect.isgenerator(tools)"), False)
        self.assertEqual(self.calls, [])


class AnswerTest(CodeModeTest):
    def setUp(self):
        super().setUp()
        self.answers["FINAL"] = self.answers["FINAL_VAR"] = {}

    def test_final(self):
        cases = (
            ("'caf\\u00e9'", "caf\u00e9"), ("{'a': [1, 'caf\\u00e9']}", '{"a": [1, "caf\u00e9"]}'), ("None", "null"), ("5", "5"),
            ("True", "true"), ("0.5", "0.5"), ("{1}", "{1}"), ("float('nan')", "nan"), ("b'x'", "b'x'"), ("(1, 2)", "[1, 2]"),
        )
        for code, wanted in cases:
            result = self.run_ok(f"print(FINAL({code}), 'and on')")
            self.assertEqual(result["stdout"], "None and on\n")
            self.assertEqual(self.calls.pop(), ("FINAL", {"answer": wanted}))

    def test_final_of_what_can_not_be_shown(self):
        self.run_ok("class C:\n    def __str__(self):\n        raise ValueError('no')\nFINAL(C())")
        self.assertIn("str() raised ValueError", self.calls[0][1]["answer"])

    def test_final_var(self):
        self.run_ok("report = {'rows': 3}\nFINAL_VAR('report')")
        self.assertEqual(self.calls, [("FINAL_VAR", {"variable_name": "report", "value": '{"rows": 3}'})])
        self.run_ok("context['two words'] = 'x'\nFINAL_VAR('two words')")
        self.assertEqual(self.calls[1][1], {"variable_name": "two words", "value": "x"})

    def test_final_var_of_nothing(self):
        message = self.run_error("report = 1\nFINAL_VAR('reprot')", "NameError")
        self.assertIn("'report'", message)
        self.assertIn("name of a variable", self.run_error("FINAL_VAR(report)", "TypeError"))
        for name in ("__builtins__", "os", "\\ud800"):
            self.run_error(f"import os\nFINAL_VAR('{name}')", "NameError")
        self.assertEqual(self.calls, [])


class NamesTest(CodeModeTest):
    def test_they_are_there_and_say_what_is_wrong(self):
        calls = ("llm_query('a')", "llm_batch(['a'])", "llm_batch([])", "tools.x()", "FINAL(1)", "call_tool('x')",
                 "x = 1\nFINAL_VAR('x')")
        for code in calls:
            error = self.guest.run(code)["error"]
            self.assertEqual(error["type"], "LLMError" if code.startswith("llm") else "ToolError")
            self.assertIn("code_mode", error["message"])
        self.assertEqual(self.guest.run("dir(tools)")["value"], "[]")
        self.assertIn("code_mode", self.guest.run("tools")["value"])

    def test_deleted_and_shadowed(self):
        self.answers["FINAL"] = {}
        self.run_ok("import builtins\nfor name in %r:\n    delattr(builtins, name)" % (NAMES,))
        self.run_ok("FINAL('a')")
        self.run_ok("FINAL = tools = 3")
        self.run_error("FINAL('a')", "TypeError")
        self.run_ok("del FINAL, tools")
        self.run_ok("FINAL('b')")
        self.run_ok("import builtins\nbuiltins.FINAL = None")
        self.run_ok("FINAL('c')")
        self.assertEqual([call[1]["answer"] for call in self.calls], ["a", "b", "c"])

    def test_a_variable_that_holds_them_can_be_shown_between_executions(self):
        self.run_ok("t = tools\nq = llm_query")
        result, _blob = self.guest.request(GET, {"names": None})
        self.assertIn("code_mode", result["variables"]["t"]["repr"])
        self.assertEqual(result["end"], "ok")

    def test_errors_can_be_pickled(self):
        self.assertEqual(self.value("import pickle\npickle.loads(pickle.dumps(ToolError('a'))).args"), ("a",))

    def test_help(self):
        self.assertIn("max_parallel", self.run_ok("import inspect\nstr(inspect.signature(llm_batch))")["value"])


class CallingTest(CodeModeTest):
    def setUp(self):
        super().setUp()
        self.answers["llm_query"] = lambda arguments: {"response": arguments["prompt"]}

    def test_from_async_code(self):
        code = "async def ask(n):\n    return llm_query(str(n))\nimport asyncio\nawait asyncio.gather(*map(ask, range(5)))"
        self.assertEqual(self.value(code), list("01234"))

    def test_from_a_thread(self):
        code = """
import threading
def ask():
    try:
        llm_query('a')
    except LLMError as e:
        print(e)
t = threading.Thread(target=ask); t.start(); t.join()"""
        self.assertIn("main thread", self.run_ok(code)["stdout"])
        self.assertEqual(self.calls, [])

    def test_from_a_child(self):
        code = """
import os
pid = os.fork()
if pid == 0:
    try:
        llm_query('a')
    except LLMError as e:
        print(e, flush=True)
    os._exit(0)
os.waitpid(pid, 0)
llm_query('parent')"""
        result = self.run_ok(code)
        self.assertIn("forked", result["stdout"])
        self.assertEqual(self.calls, [("llm_query", {"prompt": "parent"})])

    def test_a_call_inside_of_a_call(self):
        code = """
import signal
def handler(*_):
    global said
    try:
        llm_query('inner')
    except LLMError as e:
        said = str(e)
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.05)
outer = llm_query('outer')
outer, said"""
        self.guest.start(code, tools=True)
        kind, header, _blob = self.guest.wait()
        self.assertEqual(kind, TOOL_CALL)
        with self.assertRaises(TimeoutError):
            self.guest.wait(0.5)  # the alarm comes meanwhile
        self.guest.answer(header["call"], {"response": "o"})
        outer, said = eval(self.guest.result()[0]["value"])
        self.assertEqual(outer, "o")
        self.assertIn("once at a time", said)

    GIVES_UP = """
import signal
def handler(*_):
    raise TimeoutError
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.05)
try:
    llm_query('slow')
except TimeoutError:
    print('gave up', flush=True)
"""

    def wait_for_output(self, wanted):
        while wanted not in bytes(self.guest.pipes[self.guest.out]):
            with self.assertRaises(TimeoutError):
                self.guest.wait(0.05)

    def test_a_call_that_the_code_gave_up_on(self):
        self.guest.start(self.GIVES_UP + "llm_query('next')", tools=True)
        first = self.guest.wait()
        self.wait_for_output(b"gave up")
        with self.assertRaises(TimeoutError):
            self.guest.wait(0.3)  # nothing comes before the first one has its answer
        self.guest.answer(first[1]["call"], {"response": "late"})
        second = self.guest.wait()
        self.assertEqual(json.loads(second[2]), {"prompt": "next"})
        self.guest.answer(second[1]["call"], {"response": "n"})
        self.assertEqual(self.guest.result()[0]["value"], "'n'")

    def test_a_call_that_the_code_gave_up_on_at_its_end(self):
        self.guest.start(self.GIVES_UP, tools=True)
        first = self.guest.wait()
        self.wait_for_output(b"gave up")
        with self.assertRaises(TimeoutError):
            self.guest.wait(0.3)
        self.guest.answer(first[1]["call"], {"response": "x" * 3000000})
        self.assertEqual(self.guest.result()[0]["end"], "ok")
        self.assertEqual(self.value("llm_query('again')"), "again")
        self.assertEqual(self.guest.request(FILE_LIST, {"path": "/nonexistent"})[0]["end"], "error")

    def test_a_result_that_does_not_fit_into_memory(self):
        self.answers["llm_query"] = {"response": "x" * (15 << 20)}
        used = int(self.run_ok("open('/proc/self/statm').read().split()[0]")["value"].strip("'")) * 4096
        result = self.guest.run_answering("llm_query('a')", self.answer, memory_bytes=used + (8 << 20))
        self.assertEqual(result["end"], "memory", result)
        self.answers["llm_query"] = {"response": "small"}
        self.assertEqual(self.value("llm_query('a')"), "small")

    def test_many(self):
        self.assertEqual(self.value("[llm_query(str(i)) for i in range(500)][-1]"), "499")


if __name__ == "__main__":
    unittest.main()
