# SPDX-License-Identifier: Apache-2.0
"""The Bash worker over the guest protocol: variables, files, output in frames, tools."""

import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from bash_case import BashTest
from bash_guest import BashGuest
from harness import CLEAR, FILE_LIST, FILE_READ, FILE_WRITE, GET, SET, STDERR, STDOUT, Lost

from sbx_bash import variables  # noqa: E402 - bash_guest says where it is


class VariablesTest(BashTest):
    def get(self, *names):
        result, _blob = self.guest.request(GET, {"names": list(names) or None})
        self.assertEqual(result["end"], "ok", result)
        return result["variables"]

    def test_names(self):
        self.assertEqual(
            self.run_ok("b=1; a=2; readonly c=3; declare -a d=(5); _x=4")["names"], ["_x", "a", "b", "c", "d"]
        )
        self.assertEqual(self.run_ok("unset a")["names"], ["_x", "b", "c", "d"])
        self.assertEqual(len(self.run_ok("for i in {1..500}; do declare v$i=1; done")["names"]), 200)

    def test_get(self):
        self.run_ok(
            "s='a b'; i=5; declare -i n=7; a=(x $'y\\nz' '\"q\" $d `e`'); "
            "declare -A m=([k]=v ['a]b']=$'\\t\\'' [$'\\n']=n); "
            "e=; u8='caf\u00e9 \U0001f600'; raw=$'\\xff'; export HOME; declare -n ref=s"
        )
        told = self.get()
        self.assertEqual(told["s"], {"type": "string", "repr": '"a b"', "json": "a b"})
        self.assertEqual((told["n"]["type"], told["n"]["json"], told["i"]["json"]), ("integer", 7, "5"))
        self.assertEqual(told["a"]["json"], ["x", "y\nz", '"q" $d `e`'])
        self.assertEqual(told["m"]["json"], {"k": "v", "a]b": "\t'", "\n": "n"})
        self.assertEqual((told["e"]["json"], told["u8"]["json"]), ("", "caf\u00e9 \U0001f600"))
        self.assertEqual(told["raw"]["json"], "\ufffd")
        self.assertNotIn("HOME", told)
        self.assertEqual(
            set(self.get("s", "nope", "HOME", "bad name", "x;touch /tmp/no")),
            {"s"} | ({"HOME"} & set(self.get("HOME"))),
        )

    def test_get_large(self):
        self.run_ok(
            "big=$(head -c 1000000 /dev/zero | tr '\\0' x); many=({1..20000}); "
            "for i in {1..60}; do declare w$i=${big:0:60000}; done"
        )
        result, _blob = self.guest.request(GET, {"names": None})
        self.assertGreater(result["omitted"], 10)
        told = self.get("big", "many")
        self.assertIn("1000000 in all", told["big"]["repr"])
        self.assertIn("20000 in all", told["many"]["repr"])

    def test_set(self):
        cases = (
            ("plain", "plain"),
            ("a'b\"$x `y` \\ \n!", "a'b\"$x `y` \\ \n!"),
            ("", ""),
            (5, "5"),
            (1.5, "1.5"),
            (True, "true"),
            (None, ""),
            (["a", 1, {"x": [1]}], ["a", "1", '{"x": [1]}']),
            ([], []),
            ({"k k": "v", "a]b": 1}, {"k k": "v", "a]b": "1"}),
            ("s", "s"),
        )
        for value, wanted in cases:
            result, _blob = self.guest.request(SET, {"name": "v", "value": value})
            self.assertEqual(result["end"], "ok", result)
            self.assertEqual(self.get("v")["v"].get("json"), wanted)
        self.assertEqual(self.out('echo "[$v]"'), "[s]\n")
        self.assertEqual(self.out("(exit 3)\necho $?"), "3\n")

    def test_set_keeps_the_exit_code(self):
        self.fails("(exit 3)", 3)
        self.guest.request(SET, {"name": "v", "value": 1})
        self.guest.request(GET, {"names": None})
        self.assertEqual(self.out("echo $?"), "3\n")

    def test_set_fails(self):
        self.run_ok("readonly r=1")
        for name, value in (
            ("a b", 1),
            ("", 1),
            ("__x__", 1),
            ("x;y", 1),
            ("r", 2),
            ("v", "a\0b"),
            ("v", {"": 1}),
            ("v" * 300, 1),
            ("__sbx_status", 1),
            ("1a", 1),
            ("caf\u00e9", 1),
        ):
            result, _blob = self.guest.request(SET, {"name": name, "value": value})
            self.assertEqual((result["end"], result["error"]["type"]), ("error", "ValueError"), (name, result))
        self.assertEqual(self.out("echo $r"), "1\n")

    def test_under_strict_options(self):
        self.run_ok("set -euo pipefail; IFS=1; shopt -s nocasematch failglob; x=1")
        self.assertEqual(self.get("x")["x"]["json"], "1")
        self.assertEqual(self.guest.request(SET, {"name": "y", "value": "*"})[0]["end"], "ok")
        self.assertEqual(self.out('echo "$x$y"'), "1*\n")
        self.fails("false", 1)

    def test_clear(self):
        self.run_ok("x=1; readonly y=2; f() { :; }; cd /usr; set -e; sleep 300 & job=$!")
        self.assertEqual(self.guest.request(CLEAR, {})[0], {"id": 2, "end": "ok", "names": []})
        self.assertEqual(self.out("echo ${x-unset} ${y-unset} $(type -t f) $PWD; jobs"), "unset unset /tmp\n")


class DeclarationsTest(unittest.TestCase):
    """What `declare -p` of one bash or another says."""

    cases = (
        (b'declare -- x="a b"\n', ("string", "a b")),
        (b'declare -- x="line\nnext \\"q\\" \\$d \\`e\\` \\\\ \\n"\n', ("string", 'line\nnext "q" $d `e` \\ \\n')),
        (b"declare -- x=$'a\\tb\\'\\\\\\303\\251\\x41\\u20ac\\cA'\n", ("string", "a\tb'\\\u00e9A\u20ac\x01")),
        (b'declare -ix n="-7"\n', ("integer", -7)),
        (b'declare -i n="99999999999999999999"\n', ("integer", "99999999999999999999")),
        (b"declare -x x\n", ("unset", None)),
        (b"declare -a x\n", ("array", [])),
        (b"declare -a x=()\n", ("array", [])),
        (b'declare -a x=([0]="a" [5]="b c")\n', ("array", ["a", "b c"])),
        (b'declare -a x=\'([0]="a" [1]="b")\'\n', ("array", ["a", "b"])),
        (b'declare -ai x=([0]="1" [1]="2")\n', ("array", [1, 2])),
        (
            b'declare -A x=([k]="v" ["a b"]="w" [$\'\\n\']="z" )\n',
            ("associative array", {"k": "v", "a b": "w", "\n": "z"}),
        ),
        (b'declare -n r="x"\n', ("reference", "x")),
        (b'declare -- x="\xff"\n', ("string", "\ufffd")),
    )

    def test_read(self):
        for declared, wanted in self.cases:
            kind, _text, value = variables.read(declared)
            self.assertEqual((kind, value), wanted, declared)

    def test_what_is_no_declaration(self):
        for declared in (
            b"",
            b"x=5",
            b"declare -a x=([0]=",
            b"declare -a x=(5)",
            b"declare -A x=([k",
            b'declare -a x=([0]="a',
        ):
            with self.assertRaises(variables.Unreadable):
                variables.read(declared)
            self.assertEqual(variables.describe(b"x 0\n" + declared)[1]["type"], "unknown")

    def test_quoting_is_read_by_bash(self):
        for text in ("", "a b", "'", "''\\'", '$x `y` "z" !h *', "\n\t", "caf\u00e9 \U0001f600", "-n"):
            script = f'x={variables.quote(text)}; printf %s "$x"'
            self.assertEqual(subprocess.run(["bash", "-c", script], capture_output=True).stdout.decode(), text)


class FilesTest(unittest.TestCase):
    def test_files(self):
        with tempfile.TemporaryDirectory() as directory, BashGuest(cwd=directory) as guest:
            self.assertEqual(guest.request(FILE_WRITE, {"path": "d/f"}, b"content")[0]["end"], "ok")
            self.assertEqual(guest.run("cat d/f; cd /; echo more >$OLDPWD/g")["stdout"], "content")
            self.assertEqual(guest.request(FILE_READ, {"path": "g", "max_bytes": 100})[1], b"more\n")
            listed = guest.request(FILE_LIST, {"path": "."})[0]["files"]
            self.assertEqual([item["path"] for item in listed], ["d", "g", "d/f"])
            result, _blob = guest.request(FILE_READ, {"path": "none", "max_bytes": 100})
            self.assertEqual((result["end"], result["error"]["errno"]), ("error", "ENOENT"))


class FramedTest(BashTest):
    options = {"framed": True}

    def test_output(self):
        result = self.guest.run("echo out; echo err >&2; sh -c 'echo sub'")
        self.assertEqual((result["stdout"], result["stderr"]), ("out\nsub\n", "err\n"))
        kinds = {frame[0] for frame in self.guest.frames}
        self.assertEqual(kinds, {STDOUT, STDERR})
        self.assertEqual(len(self.out("head -c 3000000 /dev/zero | tr '\\0' x")), 3000000)

    def test_interrupt(self):
        result = self.guest.run_interrupted("echo begun; sleep 100")
        self.assertEqual((result["end"], result["stdout"]), ("interrupted", "begun\n"))
        self.assertEqual(self.out("echo on"), "on\n")

    def test_gone(self):
        self.guest.start("echo last; kill -9 $$")
        self.assertRaises(Lost, self.guest.result, 20)
        self.assertEqual([frame[2] for frame in self.guest.frames if frame[0] == STDOUT], [b"last\n"])


class ToolsTest(BashTest):
    options = {"env": {"TMPDIR": tempfile.gettempdir()}}

    def setUp(self):
        super().setUp()
        self.calls = []

    def answer(self, name, arguments):
        self.calls.append((name, arguments))
        if name == "fail":
            raise ValueError("it failed")
        if name == "llm_query":
            return {"response": arguments["prompt"][::-1], "tokens_used": 1, "cost": None}
        if name == "__list__":
            return {"tools": [{"name": "look", "description": "Looks.\nMore"}, {"name": "b", "description": ""}]}
        if name == "error":
            return {"content": [{"type": "text", "text": "no such file"}], "isError": True}
        if name == "structured":
            return {"content": [], "isError": False, "structuredContent": {"a": 1}}
        return {"content": [{"type": "text", "text": "found\n" + arguments.get("path", "")}], "isError": False}

    def answered(self, code):
        return self.guest.run_answering(code, self.answer)

    def test_tools(self):
        self.assertEqual(
            self.answered("x=$(call_tool look path='a b' n:=5 list:='[1, null]'); echo \"$x\"")["stdout"],
            "found\na b\n",
        )
        self.assertEqual(self.calls, [("look", {"path": "a b", "n": 5, "list": [1, None]})])
        self.assertEqual(self.answered("call_tool structured")["stdout"], '{"a": 1}\n')
        result = self.answered("call_tool error || echo failed; call_tool fail || echo too")
        self.assertEqual(
            (result["stdout"], result["stderr"]),
            ("failed\ntoo\n", "bash: call_tool: no such file\nbash: call_tool: it failed\n"),
        )
        self.assertEqual(self.answered("tools")["stdout"], "look: Looks.\nb\n")

    def test_queries_and_answers(self):
        self.assertEqual(
            self.answered("llm_query 'caf\u00e9 $'; FINAL the answer; v=1; FINAL_VAR v")["stdout"], "$ \u00e9fac\n"
        )
        self.assertEqual(
            self.calls,
            [
                ("llm_query", {"prompt": "caf\u00e9 $"}),
                ("FINAL", {"answer": "the answer"}),
                ("FINAL_VAR", {"variable_name": "v", "value": "1"}),
            ],
        )
        self.assertEqual(self.answered("FINAL_VAR nope")["end"], "error")
        self.assertEqual(len(self.calls), 3)

    def test_bad_calls(self):
        for code in (
            "call_tool",
            "call_tool look plain",
            "call_tool look a:=nope",
            "llm_query",
            "call_tool " + "x" * 200,
        ):
            self.assertEqual(self.answered(code)["exit_code"], 1, code)
        self.assertEqual(self.calls, [])

    def test_not_here(self):
        result = self.fails("call_tool look", 1)
        self.assertIn("code mode is off", result["stderr"])
        self.answered("call_tool look >/dev/null")
        self.fails("call_tool look", 1)

    def test_in_a_pipeline(self):
        self.answered(
            'for n in a b; do call_tool look path=$n | llm_query "$(cat)" | tr -d "\\n"; done >$TMPDIR/verdicts; '
            'FINAL "$(cat $TMPDIR/verdicts; rm $TMPDIR/verdicts)"'
        )
        self.assertEqual(self.calls[-1], ("FINAL", {"answer": "adnuofbdnuof"}))

    def test_processes_that_are_left_behind(self):
        # The one that calls waits for a file, which is there once the next execution runs, without tools.
        with tempfile.TemporaryDirectory() as directory:
            self.answered(
                f"{{ until [[ -e {directory}/go ]]; do sleep 0.01; done; "
                f"call_tool look; echo $?; }} >{directory}/out 2>&1 &"
            )
            self.assertIn("may call tools\n1\n", self.out(f"touch {directory}/go; wait; cat {directory}/out"))
        self.assertEqual(self.calls, [])
        self.assertEqual(self.answered("call_tool look")["stdout"], "found\n\n")

    def test_side_by_side(self):
        result = self.answered("for i in {1..20}; do call_tool look path=$i & done | sort -n; wait")
        self.assertEqual(sorted(result["stdout"].split()), sorted(["found"] * 20 + [str(i) for i in range(1, 21)]))

    def test_large(self):
        result = self.answered(
            "x=$(head -c 2000000 /dev/zero | tr '\\0' x | { read -r y; call_tool look path=$y; }); echo ${#x}"
        )
        self.assertEqual(result["stdout"], "2000006\n")

    def test_interrupted_while_it_waits(self):
        self.guest.start("x=5; llm_query a; echo no", tools=True)
        frame = self.guest.wait()
        self.guest.interrupt()
        self.guest.answer(frame[1]["call"], "the execution is being stopped", False)
        result = self.guest.complete(*self.guest.result())
        self.assertEqual((result["end"], result["stdout"]), ("interrupted", ""))
        self.assertEqual(self.answered("echo $x; llm_query ab")["stdout"], "5\nba\n")


if __name__ == "__main__":
    unittest.main()
