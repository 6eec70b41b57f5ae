# SPDX-License-Identifier: Apache-2.0
"""The Node worker as a plain process, driven over the guest protocol."""

import json
import os
import tempfile
import time
import unittest

from harness import OLDEST, Guest, python, version

CLEAR, EXEC = python.CLEAR, python.EXEC
FILE_LIST, FILE_READ, FILE_WRITE = python.FILE_LIST, python.FILE_READ, python.FILE_WRITE
GET, SET = python.GET, python.SET
MIB = 1 << 20
FOUND = version()


@unittest.skipIf(FOUND < OLDEST, f"Node {OLDEST} or later is not here (SBX_TEST_NODE names one)")
class GuestTest(unittest.TestCase):
    options = {}

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.guest = Guest(cwd=self.directory.name, **self.options)
        self.addCleanup(self.guest.close)

    def run_ok(self, code, **header):
        result = self.guest.run(code, **header)
        self.assertEqual(result["end"], "ok", result)
        return result

    def value(self, code):
        return self.run_ok(code).get("value")

    def run_error(self, code, kind, **header):
        result = self.guest.run(code, **header)
        self.assertEqual((result["end"], result["error"]["type"]), ("error", kind), result)
        return result["error"]


class ExecutionTest(GuestTest):
    def test_ready(self):
        ready = self.guest.ready
        self.assertEqual((ready["protocol"], ready["runtime"], ready["implementation"]), (1, "node", "v8"))
        self.assertEqual(int(ready["version"].split(".")[0]), FOUND)
        self.assertEqual(ready["features"], ["display", "files", "tools", "states"])

    def test_state_values_and_output(self):
        self.assertEqual(
            self.run_ok("let x = 1\nconsole.log('out')\nconsole.error('err')"),
            {"id": 1, "end": "ok", "names": ["x"], "stdout": "out\n", "stderr": "err\n", "displays": []},
        )
        result = self.run_ok("x + 1")
        self.assertEqual(result["value"], "2")
        self.assertNotIn("names", result)

    def test_everything_can_be_declared_again(self):
        for _ in range(2):
            self.run_ok("const a = 1, {b, c: [d]} = {b: 2, c: [3]}; class K { static v = 4 }; function f() { return "
                        "5 }")
        self.assertEqual(self.value("[a, b, d, K.v, f()]"), "[ 1, 2, 3, 4, 5 ]")
        self.run_ok("let a; var b;")
        self.assertEqual(self.value("[a, b]"), "[ undefined, 2 ]")

    def test_functions_see_what_is_defined_later(self):
        self.run_ok("function helper() { return 1 }\nfunction main() { return helper() }")
        self.run_ok("function helper() { return 2 }")
        self.assertEqual(self.value("main()"), "2")

    def test_functions_are_there_before_they_are_written(self):
        self.assertEqual(self.value("const v = f();\nfunction f() { return 7 }\nv"), "7")
        self.assertEqual(self.value("f.name"), "'f'")

    def test_var_of_blocks_and_loops_is_the_session_s(self):
        self.run_ok("if (true) var q = 5; else var r = 6\nfor (var i = 0; i < 2; i++) { var z = i }\nfor (var [p] of "
                    "[[1]]) p")
        self.assertEqual(self.value("[q, r, i, z, p]"), "[ 5, undefined, 2, 1, 1 ]")
        self.run_ok("for (let j = 0; j < 2; j++) { const inner = j }")
        self.assertEqual(self.value("[typeof j, typeof inner]"), "[ 'undefined', 'undefined' ]")

    def test_names_of_the_machine_can_be_declared(self):
        self.run_ok("const crypto = require('crypto'); const fetch = 1, name = 2, process_ = process")
        self.assertEqual(self.value("[typeof crypto.createHash, fetch, name]"), "[ 'function', 1, 2 ]")
        self.guest.request(CLEAR, {})
        self.assertEqual(self.value("typeof fetch"), "'function'")

    def test_await_and_promises(self):
        self.assertEqual(self.value("const later = await new Promise(r => setTimeout(() => r(3), 10)); later"), "3")
        self.assertEqual(self.value("(async () => { await null; return 4 })()"), "4")
        self.assertEqual(self.value("for await (const part of [Promise.resolve(5)]) var got = part\ngot"), "5")
        self.run_error("Promise.reject(new RangeError('no'))", "RangeError")
        self.run_error("await null; throw new TypeError('late')", "TypeError")

    def test_imports(self):
        with open(os.path.join(self.directory.name, "m.mjs"), "w", encoding="utf-8") as file:
            file.write("export default 1; export const two = 2\n")
        with open(os.path.join(self.directory.name, "c.js"), "w", encoding="utf-8") as file:
            file.write("exports.three = 3\n")
        self.run_ok("import fs, {readFileSync as read} from 'node:fs'\nimport * as os from 'os'\nimport 'path'")
        self.assertEqual(self.value("[fs.readFileSync === read, typeof os.tmpdir]"), "[ true, 'function' ]")
        self.assertEqual(self.value("import one, {two} from './m.mjs'\none + two"), "3")
        self.assertEqual(self.value("(await import('./m.mjs')).two"), "2")
        self.assertEqual(self.value("require('./c.js').three"), "3")
        self.assertEqual(self.value("import {three} from './c.js'; three"), "3")
        self.assertEqual(self.guest.run("export const five = 5; five")["value"], "5")

    def test_the_value_is_that_of_the_last_expression(self):
        for code, value in (("1; 'two'", "'two'"), ("{a: 1, b: 2}", "{ a: 1, b: 2 }"), ("{a: 1}", "{ a: 1 }"), ("null",
                                                                                                                "null"),
                            ("undefined", None), ("if (true) 5", None), ("// nothing", None), ("", None), ("x = 5;",
                                                                                                           "5"),
                            ("'use strict'", "'use strict'"), ("return 8", "8"), ("#!/usr/bin/env node\n9", "9"),
                            ("[1]\n// end", "[ 1 ]"), ("new Map([[1, {a: [2]}]])", "Map(1) { 1 => { a: [ 2 ] } }")):
            with self.subTest(code):
                self.assertEqual(self.value(code), value)

    def test_result(self):
        result = self.run_ok("const result = {text: 'ü\\ud83d\\ude00', list: [1, 2.5, null, true]}")
        self.assertEqual(result["json"], {"text": "ü😀", "list": [1, 2.5, None, True]})
        self.assertTrue(result["result"].startswith("{ text: "))
        self.assertNotIn("result", self.run_ok("1"))
        self.assertEqual(self.run_ok("result = 5")["json"], 5)
        self.assertEqual(self.run_ok("globalThis['res' + 'ult'] = 6")["json"], 6)
        for code in ("undefined", "() => 1", "NaN", "10n", "new Date(0)", "new Map()", "2 ** 70", "'\\ud800'",
                     "{'a\\0': 1}",
                     "Symbol('s')", "new Proxy({}, {})", "(() => { const a = []; a[0] = a; return a })()", "[,1]"):
            with self.subTest(code):
                told = self.run_ok(f"result = ({code})")
                self.assertNotIn("result_json", told)
                self.assertIsInstance(told["result"], str)

    def test_methods_of_the_user_s_have_no_say_in_json(self):
        self.run_ok("Object.prototype.toJSON = Array.prototype.toJSON = function () { return 'mine' }")
        self.assertEqual(self.run_ok("result = {a: [1]}")["json"], {"a": [1]})

    def test_errors(self):
        error = self.run_error("function inner() {\n  null.x\n}\n\ninner()", "TypeError")
        self.assertIn("<execution>:2", error["traceback"])
        self.assertIn("<execution>:5", error["traceback"])
        self.assertNotIn("sbx_node", error["traceback"])
        self.assertNotIn("node:internal", error["traceback"])
        error = self.run_error("let ok = 1\nlet = = 2", "SyntaxError")
        self.assertIn("<execution 2>:2", error["traceback"])
        self.assertEqual(self.run_error("throw 5", "number")["message"], "5")
        self.run_error("throw Object.assign(new Error('x'), {name: 'Mine'})", "Mine")
        self.run_error("throw null", "null")
        self.assertEqual(self.run_error("require('fs').readFileSync('/nowhere')", "Error")["errno"], "ENOENT")
        self.run_error("throw new Proxy(new Error('x'), {get() { throw 1 }})", "Proxy")

    def test_errors_of_callbacks_end_the_execution(self):
        self.run_error("setTimeout(() => { throw new RangeError('in a timer') }, 5); await new Promise(() => {})",
                       "RangeError")
        self.run_error("Promise.reject(new TypeError('unhandled')); await new Promise(() => {})", "TypeError")
        self.assertEqual(self.value("1"), "1")

    def test_exit(self):
        self.run_ok("var before = 1; process.exit(); before = 2")
        self.assertEqual(self.run_error("before = 3; process.exit(3)", "ExitError")["message"],
                         "the code ended with exit code 3")
        self.run_error("try { process.exit(4) } catch { before = 4 } finally { before = 5 }", "ExitError")
        self.run_error("await null; process.exit(5)", "ExitError")
        self.assertEqual(self.value("before"), "3")

    def test_what_was_begun_is_waited_for(self):
        self.assertEqual(self.run_ok("setTimeout(() => console.log('later'), 30); 1")["stdout"], "later\n")
        self.assertEqual(self.run_ok("require('fs').readFile('/dev/null', () => console.log('read'))")["stdout"],
                         "read\n")
        code = "require('child_process').exec('echo child', (error, out) => process.stdout.write(out)); 1"
        self.assertEqual(self.run_ok(code)["stdout"], "child\n")
        self.assertEqual(self.run_ok("setImmediate(() => process.nextTick(() => console.log('soon')))")["stdout"],
                         "soon\n")

    def test_intervals_and_servers_are_not_waited_for(self):
        self.run_ok("var count = 0, every = setInterval(() => count++, 1); 1")
        self.run_ok("var server = require('net').createServer(c => c.end('hello')).listen('./socket'); 1")
        code = "await new Promise(r => require('net').connect('./socket').on('data', d => r(String(d))))"
        self.assertEqual(self.value(code), "'hello'")
        self.assertEqual(self.value("await new Promise(r => setTimeout(r, 20)); clearInterval(every); "
                                    "server.close(); count > 0"), "true")

    def test_working_directory_and_environment_last(self):
        self.run_ok("require('fs').mkdirSync('d'); process.chdir('d'); process.env.MINE = 'x'")
        self.assertEqual(self.value("[process.cwd().endsWith('/d'), process.env.MINE]"), "[ true, 'x' ]")
        self.assertNotIn("SBX_CONTROL_FD", self.value("Object.keys(process.env).join()"))

    def test_streams_come_back(self):
        self.run_ok("process.stdout.end(); process.stderr.destroy(); console.log = () => {}; process.stdin.resume()")
        result = self.run_ok("console.log(1); console.error(2)")
        self.assertEqual((result["stdout"], result["stderr"]), ("1\n", "2\n"))
        code = "const read = []; for await (const part of process.stdin) read.push(part); read.length"
        self.assertEqual(self.value(code), "0")

    def test_children_s_output_is_caught_and_the_control_stream_is_not_theirs(self):
        code = ("require('child_process').spawnSync('sh', ['-c', 'echo out; echo err >&2; ls /proc/self/fd | tail -n "
                "1'], {stdio: 'inherit'}); 1")
        result = self.run_ok(code)
        self.assertEqual((result["stdout"], result["stderr"]), ("out\n3\n", "err\n"))

    def test_syntax_that_only_v8_knows_runs(self):
        self.run_ok("var text = 'a'; var flag = /(?<year>[0-9]{4})/v" if FOUND >= 20 else "var text = 'a'")
        self.assertEqual(self.value("text"), "'a'")

    def test_source_that_is_no_utf8(self):
        self.guest.start(b"'\xff'")
        self.assertEqual(self.guest.result()[0]["end"], "error")

    def test_large_sources_and_values(self):
        text = "x" * (2 * MIB)
        self.assertEqual(self.value(f"'{text}'.length"), str(2 * MIB))
        self.assertLess(len(self.value("'y'.repeat(5e6)")), 200_000)
        self.assertLess(len(self.value("Array.from({length: 1e5}, (_, i) => ({i}))")), 200_000)


class VariablesTest(GuestTest):
    def get(self, names=None):
        return self.guest.request(GET, {"names": names})[0]["variables"]

    def test_get(self):
        self.run_ok("var n = 1, s = 'ü', o = {a: [1]}, f = () => 1, big = 10n\nconst fs = require('fs'), os = await "
                    "import('os')")
        told = self.get()
        self.assertEqual(set(told), {"n", "s", "o", "f", "big"})
        self.assertEqual(told["n"], {"type": "number", "repr": "1", "json": 1})
        self.assertEqual(told["s"]["json"], "ü")
        self.assertEqual(told["o"], {"type": "Object", "repr": "{ a: [ 1 ] }", "json": {"a": [1]}})
        self.assertNotIn("json", told["f"])
        self.assertEqual(told["big"]["type"], "bigint")
        self.assertEqual(set(self.get(["n", "nothing", "process", "fs"])), {"n"})

    def test_get_is_bounded(self):
        self.run_ok("for (let i = 0; i < 100; i++) globalThis['v' + i] = 'x'.repeat(40000)")
        answer = self.guest.request(GET, {"names": None})[0]
        self.assertGreater(answer["omitted"], 0)
        self.assertLess(len(json.dumps(answer)), 2 * MIB)

    def test_hostile_values_are_told(self):
        self.run_ok("""var a = {get x() { throw 1 }}, b = new Proxy({}, {get() { throw 2 }, ownKeys() { throw 3 }}), loop = {};
            loop.self = loop; class E { get [Symbol.toStringTag]() { throw 4 } } var e = new E();
            var i = {[Symbol.for('nodejs.util.inspect.custom')]() { throw new Error('no') }};
            Object.defineProperty(globalThis, 'accessor', {get() { throw 5 }, configurable: true, enumerable: true})""")
        self.assertEqual(set(self.get()), {"a", "b", "loop", "E", "e", "i"})

    def test_set(self):
        answer = self.guest.request(SET, {"name": "config", "value": {"list": [1, "two"]}})[0]
        self.assertEqual((answer["end"], answer["repr"], answer["names"]), ("ok", "{ list: [ 1, 'two' ] }", ["config"]))
        self.assertEqual(self.value("config.list[1]"), "'two'")
        self.guest.request(SET, {"name": "a name", "value": 1})
        self.assertEqual(self.value("context['a name'] + Object.keys(context).length"), "3")
        self.assertEqual(self.guest.request(SET, {"name": "__proto__", "value": 1})[0]["end"], "error")
        self.assertEqual(self.guest.request(SET, {"name": "process", "value": 1})[0]["end"], "ok")
        self.assertEqual(self.value("1"), "1")

    def test_clear(self):
        self.run_ok("var a = 1; let b = 2; function c() {}; globalThis.d = 4; delete globalThis.display; Math = null")
        answer = self.guest.request(CLEAR, {})[0]
        self.assertEqual((answer["end"], answer["names"]), ("ok", []))
        self.assertEqual(self.value("[typeof a, typeof b, typeof c, typeof d, typeof display, typeof Math].join()"),
                         "'undefined,undefined,undefined,undefined,function,object'")


class FilesTest(GuestTest):
    def test_round_trip(self):
        content = bytes(range(256)) * 1000
        self.assertEqual(self.guest.request(FILE_WRITE, {"path": "a/b/c.bin"}, content)[0]["size"], len(content))
        answer, blob = self.guest.request(FILE_READ, {"path": "a/b/c.bin", "max_bytes": 1 << 20})
        self.assertEqual((answer["size"], blob), (len(content), content))
        self.guest.request(FILE_WRITE, {"path": "a/b/c.bin"}, b"short")
        self.assertEqual(self.guest.request(FILE_READ, {"path": "a/b/c.bin", "max_bytes": 5})[1], b"short")
        listed = self.guest.request(FILE_LIST, {"path": ""})[0]
        self.assertEqual([(item["path"], item["type"]) for item in listed["files"]],
                         [("a", "directory"), ("a/b", "directory"), ("a/b/c.bin", "file")])
        self.assertFalse(listed["truncated"])

    def test_failures(self):
        os.mkfifo(os.path.join(self.directory.name, "fifo"))
        for path, number in (("nothing", "ENOENT"), (".", "EISDIR"), ("fifo", "EINVAL"), ("x" * 5000, "ENAMETOOLONG")):
            with self.subTest(path[:10]):
                answer = self.guest.request(FILE_READ, {"path": path, "max_bytes": 100})[0]
                self.assertEqual((answer["end"], answer["error"].get("errno")), ("error", number))
        self.guest.request(FILE_WRITE, {"path": "big"}, b"x" * 1000)
        self.assertEqual(self.guest.request(FILE_READ, {"path": "big", "max_bytes": 999})[0]["error"]["errno"], "EFBIG")
        self.assertEqual(self.guest.request(FILE_READ, {"path": "a\0b", "max_bytes": 1})[0]["end"], "error")

    def test_names_that_are_no_utf8(self):
        with open(os.path.join(self.directory.name.encode(), b"bad\xff"), "wb"):
            pass
        listed = self.guest.request(FILE_LIST, {"path": "."})[0]["files"]
        self.assertEqual([(item["path"], item["type"]) for item in listed], [("bad\ufffd", "other")])

    def test_many_files_are_cut(self):
        self.run_ok("const fs = require('fs'); for (let i = 0; i < 10010; i++) fs.writeFileSync('f' + i, '')")
        listed = self.guest.request(FILE_LIST, {"path": ""})[0]
        self.assertEqual((len(listed["files"]), listed["truncated"]), (10000, True))

    def test_the_workspace_stays(self):
        self.run_ok("require('fs').mkdirSync('deep'); process.chdir('deep')")
        self.guest.request(FILE_WRITE, {"path": "top.txt"}, b"1")
        self.assertTrue(os.path.exists(os.path.join(self.directory.name, "top.txt")))


class DisplayTest(GuestTest):
    def test_images_and_bundles(self):
        png = b"\x89PNG\r\n\x1a\n"
        self.assertEqual(self.run_ok(f"display(Buffer.from('{png.hex()}', 'hex'))")["displays"], [("image/png", png)])
        code = ("const shown = {[Symbol.for('Jupyter.display')]: () => ({'text/html': '<b>ü</b>', 'text/plain': "
                "'x'})}; shown")
        self.assertEqual(self.run_ok(code)["displays"], [("text/html", "<b>ü</b>".encode())])
        code = "({[Symbol.for('Jupyter.display')]: async () => ({'application/json': {a: 1}})})"
        self.assertEqual(self.run_ok(code)["displays"], [("application/json", b'{"a":1}')])
        self.assertEqual(self.run_ok("display('<p>', 'text/html')")["displays"], [("text/html", b"<p>")])
        self.assertEqual(self.run_ok("display({a: 1}); display('text')")["stdout"], "{ a: 1 }\ntext\n")
        self.run_error("display({}, 'image/png')", "TypeError")
        self.run_error("({[Symbol.for('Jupyter.display')]() { throw new RangeError('no') }})", "RangeError")

    def test_too_large(self):
        result = self.run_ok("display(Buffer.alloc(17 << 20), 'application/octet-stream')")
        self.assertEqual(result["displays"], [])
        self.assertIn("left out", result["stderr"])


class ToolsTest(GuestTest):
    def answering(self, code, answers):
        calls = []

        def answer(name, arguments):
            calls.append((name, arguments))
            found = answers[name]
            if isinstance(found, Exception):
                raise found
            return found

        result = self.guest.run_answering(code, answer)
        return result, calls

    def test_queries(self):
        result, calls = self.answering(
            "const one = await llm_query('ü?', {system: 's', max_tokens: 5});\n"
            "const many = await llm_batch(['a', {query: 'b', system: 't'}], {max_parallel: 2}); [one, ...many]",
            {"llm_query": {"response": "1", "tokens_used": 1, "cost": None},
             "llm_batch": {"results": [{"response": "2"}, {"response": "3"}]}})
        self.assertEqual(result["value"], "[ '1', '2', '3' ]")
        self.assertEqual(calls, [("llm_query", {"prompt": "ü?", "system": "s", "max_tokens": 5}),
                                 ("llm_batch", {"queries": [{"query": "a"}, {"query": "b", "system": "t"}],
                                                "max_parallel": 2})])

    def test_failed_queries(self):
        result, _calls = self.answering("try { await llm_batch(['a', 'b']) } catch (e) { [e.name, e.results, "
                                        "e.errors].join('|') }",
                                        {"llm_batch": {"results": [{"response": "2"}, {"response": None,
                                                                                       "error": "x"}]}})
        self.assertEqual(result["end"], "ok")
        result, _calls = self.answering("await llm_query('a')", {"llm_query": ValueError("no budget")})
        self.assertEqual((result["error"]["type"], result["error"]["message"]), ("LLMError", "no budget"))

    def test_tools(self):
        answers = {"add": {"content": [{"type": "text", "text": "3"}]}, "bad": {"content": [{"type": "text",
                                                                                             "text": "why"}],
                                                                                             "isError": True},
                   "whole": {"content": [], "structuredContent": {"a": 1}}}
        result, calls = self.answering("[await tools.add({a: 1, b: 2}), await tools.whole(), (await "
                                       "call_tool('whole')).content]", answers)
        self.assertEqual(result["value"], "[ 3, { a: 1 }, [] ]")
        self.assertEqual(calls[0], ("add", {"a": 1, "b": 2}))
        result, _calls = self.answering("await tools.bad()", answers)
        self.assertEqual((result["error"]["type"], result["error"]["message"]), ("ToolError", "why"))
        result, calls = self.answering("await Promise.all([1, 2, 3].map(a => tools.add({a})))", answers)
        self.assertEqual([arguments["a"] for _name, arguments in calls], [1, 2, 3])

    def test_answers_that_nobody_waits_for(self):
        result, calls = self.answering("var x = {a: [1]}; FINAL_VAR('x'); FINAL('text'); 1", {"FINAL": None,
                                                                                              "FINAL_VAR": None})
        self.assertEqual(result["value"], "1")
        self.assertEqual(calls, [("FINAL_VAR", {"variable_name": "x", "value": '{"a":[1]}'}), ("FINAL",
                                                                                               {"answer": "text"})])

    def test_not_here(self):
        error = self.run_error("await tools.add({})", "ToolError")
        self.assertIn("code_mode", error["message"])
        self.run_error("await llm_query('x')", "LLMError")
        self.run_error("await FINAL_VAR('nothing')", "ReferenceError")

    def test_names_can_be_hidden_and_come_back(self):
        self.run_ok("const tools = 5; delete globalThis.FINAL")
        self.assertEqual(self.value("tools"), "5")
        self.assertEqual(self.value("typeof FINAL"), "'function'")
        self.guest.request(CLEAR, {})
        self.assertEqual(self.value("typeof tools"), "'object'")


class FramedTest(ExecutionTest):
    """The same behind a relay, which frames what is printed."""

    options = {"framed": True}

    def test_much_output(self):
        result = self.run_ok("for (let i = 0; i < 30; i++) process.stdout.write('y'.repeat(1e5)); "
                             "console.error('e'); 1")
        self.assertEqual((len(result["stdout"]), result["stderr"]), (3_000_000, "e\n"))
        self.assertTrue(all(len(frame[2]) <= MIB for frame in self.guest.frames))

    def test_children_that_write_while_the_code_waits_for_them(self):
        code = "require('child_process').execSync('head -c 3000000 /dev/zero', {stdio: 'inherit'}); 1"
        self.assertEqual(len(self.run_ok(code)["stdout"]), 3_000_000)

    def test_the_end_of_the_worker_is_the_end_of_the_relay(self):
        with self.assertRaises(python.Lost):
            self.guest.run("process.kill(process.pid, 'SIGKILL'); await new Promise(() => {})")
        self.assertEqual(self.guest.process.wait(30), 137)

    def test_the_end_of_the_stream_is_the_end_of_all(self):
        worker = int(self.value("process.pid"))
        self.assertNotEqual(worker, self.guest.process.pid)
        self.guest.socket.close()
        self.assertEqual(self.guest.process.wait(30), 0)
        deadline = time.monotonic() + 30
        while os.path.exists(f"/proc/{worker}") and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertFalse(os.path.exists(f"/proc/{worker}"))


class ProtocolTest(GuestTest):
    def test_broken_frames_end_the_worker(self):
        for data in (b"\xff\xff\xff\xff\x02", b"\0\0\0\0\x77", b"\x02\0\0\0\x03{]"):
            with self.subTest(data):
                guest = Guest()
                self.addCleanup(guest.close)
                guest.send_raw(data)
                self.assertNotEqual(guest.process.wait(30), None)

    def test_the_end_of_the_stream_ends_the_worker_whatever_goes_on(self):
        self.run_ok("setInterval(() => {}, 1); require('net').createServer().listen('./s'); 1")
        self.guest.socket.close()
        self.assertEqual(self.guest.process.wait(30), 0)
        self.assertEqual(self.guest.read_pipes(), b"")

    def test_requests_that_follow_each_other_at_once(self):
        for number in range(1, 21):
            self.guest.send(EXEC, {"id": number, "filename": "<execution>"}, f"{number} + 0".encode())
            self.guest.serial = number
            self.assertEqual(self.guest.result()[0]["value"], str(number))
