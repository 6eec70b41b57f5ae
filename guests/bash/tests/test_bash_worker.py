# SPDX-License-Identifier: Apache-2.0
"""The Bash worker as a plain process, driven over the guest protocol."""

import os
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from bash_guest import BashGuest
from harness import CLEAR, FILE_LIST, FILE_READ, FILE_WRITE, GET, HELLO, SET, STDERR, STDOUT, Lost

from sbx_bash import processes, variables  # noqa: E402 - bash_guest says where it is

MIB = 1 << 20


class BashTest(unittest.TestCase):
    options = {}

    def setUp(self):
        self.guest = BashGuest(**self.options)
        self.addCleanup(self.guest.close)

    def run_ok(self, code, **header):
        result = self.guest.run(code, **header)
        self.assertEqual(result["end"], "ok", result)
        self.assertEqual(result["exit_code"], 0, result)
        return result

    def out(self, code, **header):
        return self.run_ok(code, **header)["stdout"]

    def fails(self, code, status, kind="ExitStatus"):
        result = self.guest.run(code)
        self.assertEqual((result["end"], result["exit_code"], result["error"]["type"]), ("error", status, kind), result)
        return result


class ExecutionTest(BashTest):
    def test_ready(self):
        ready = self.guest.ready
        self.assertEqual((ready["protocol"], ready["runtime"], ready["implementation"]), (1, "bash", "bash"))
        self.assertRegex(ready["version"], r"^\d+\.\d+")
        self.assertEqual(ready["features"], ["files", "tools", "states"])

    def test_output(self):
        result = self.run_ok("echo out; echo err >&2")
        self.assertEqual((result["stdout"], result["stderr"], result["names"]), ("out\n", "err\n", []))
        self.assertNotIn("names", self.run_ok("echo again"))

    def test_state(self):
        self.run_ok("x=5; a=(1 'two words'); declare -A m=([k]=v); f() { echo \"f $1 $x\"; }; export E=env")
        self.run_ok("cd /usr; alias ll='echo aliased'; set -o pipefail; umask 027")
        self.assertEqual(
            self.out("f arg; echo ${a[1]} ${m[k]}; sh -c 'echo $E'; pwd; ll; umask; [[ -o pipefail ]] && echo p"),
            "f arg 5\ntwo words v\nenv\n/usr\naliased\n0027\np\n",
        )

    def test_exit_codes(self):
        self.assertEqual(self.fails("(exit 3)", 3)["error"]["message"], "exit code 3")
        self.assertEqual(self.out("echo $?"), "3\n")
        self.assertIn("SIGKILL", self.fails("sh -c 'kill -9 $$'", 137)["error"]["message"])
        self.fails("no_such_command", 127)
        self.fails("return 4; echo no", 4)
        self.fails("[[ x == y ]]", 1)

    def test_syntax_error(self):
        for code, wanted in (
            ("if", "line 1: syntax error: unexpected end of the code"),
            ("echo a\nfoo (\n", "line 2: syntax error near"),
            ("echo 'a\nb", "unexpected EOF"),
        ):
            result = self.fails(code, 2, "SyntaxError")
            self.assertIn(wanted, result["error"]["message"])
            self.assertIn(wanted, result["stderr"])
            self.assertEqual(result["stdout"], "")
            for own in ("/proc/self", "__sbx"):
                self.assertNotIn(own, result["stderr"])
        self.assertIn("NUL", self.fails("echo a\0b", 2, "SyntaxError")["error"]["message"])
        self.run_ok("echo on")

    def test_nothing_to_run(self):
        for code in ("", "\n\n", "# a comment", "  # another\n\n# one"):
            self.run_ok(code)
        self.assertEqual(self.out("# first\necho $LINENO # last"), "2\n")

    def test_syntax_of_all_kinds(self):
        self.assertEqual(
            self.out("cat <<'X' | tr a-z A-Z\nabc $x\nX\ncat <<<here; cat < <(echo sub); echo $((6*7)) {1..3}"),
            "ABC $X\nhere\nsub\n42 1 2 3\n",
        )
        self.assertEqual(
            self.out("echo !(a) | wc -w; case x in +(x)) echo ext;; esac; echo a! '!b'").split("\n")[1:],
            ["ext", "a! !b", ""],
        )
        self.assertEqual(self.out("for i in 1 2; do\n  echo $i\ndone | while read -r n; do echo n$n; done"), "n1\nn2\n")
        self.assertEqual(self.out("echo back \\"), "back\n")
        self.assertEqual(
            self.out("coproc cat; echo x >&${COPROC[1]}; read -r y <&${COPROC[0]}; kill $COPROC_PID; wait; echo $y"),
            "x\n",
        )

    def test_large_sources(self):
        self.assertEqual(self.out("x='" + "a" * 10 * MIB + "'\necho ${#x}"), f"{10 * MIB}\n")

    def test_large_output(self):
        result = self.run_ok("head -c 3000000 /dev/zero | tr '\\0' x; printf '\\377\\n' >&2")
        self.assertEqual(len(result["stdout"]), 3000000)
        self.assertEqual(result["stderr"], "\ufffd\n")

    def test_standard_input_is_empty(self):
        self.assertEqual(self.out("cat; read x; echo $?; sh -c 'read y; echo $?'"), "1\n1\n")

    def test_background_jobs(self):
        self.assertEqual(
            self.out(
                "{ while [[ ! -e go ]]; do sleep 0.01; done; echo late > done; } & echo on",
            ),
            "on\n",
        )
        self.assertEqual(self.out("touch go; wait; echo $? $(cat done); rm go done"), "0 late\n")
        self.assertEqual(self.out("sh -c 'exit 7' & job=$!"), "")
        self.assertEqual(self.out("wait $job; echo $?"), "7\n")

    def test_redirections_end_with_the_execution(self):
        with tempfile.TemporaryDirectory() as directory:
            self.assertEqual(self.out(f"exec >{directory}/out 2>&1 </dev/zero; echo lost"), "")
            self.assertEqual(self.out(f"echo back; cat {directory}/out; cat"), "back\nlost\n")
            self.run_ok(f"exec 7>{directory}/seven")
            self.assertEqual(self.out(f"echo more >&7; cat {directory}/seven; exec 7>&-"), "more\n")

    def test_programs_get_three_descriptors(self):
        script = (
            "import os; print(sorted(int(n) for n in os.listdir('/proc/self/fd'))[:3], "
            "[os.readlink('/proc/self/fd/' + n) for n in os.listdir('/proc/self/fd') if 3 < int(n)])"
        )
        told = self.out(f'{sys.executable} -c "{script}"')
        self.assertTrue(told.startswith("[0, 1, 2]"), told)
        self.assertNotIn("pipe", told)
        self.assertNotIn("socket", told)

    def test_result(self):
        result = self.run_ok("result=(a 'b c')")
        self.assertEqual((result["result"], result["json"]), ('([0]="a" [1]="b c")', ["a", "b c"]))
        self.assertNotIn("result", self.run_ok("x=1"))
        self.assertEqual(self.run_ok("unset result; declare -i result=5")["json"], 5)
        self.assertEqual(self.run_ok("result=5")["json"], 5)
        self.assertNotIn("result", self.run_ok("echo $result"))
        result = self.run_ok("unset result; result=$(head -c 3000000 /dev/zero | tr '\\0' x)")
        self.assertNotIn("json", result)
        self.assertLess(len(result["result"]), 70000)

    def test_line_numbers_of_errors(self):
        self.assertEqual(self.out("x=1\n\necho $LINENO"), "3\n")

    def test_functions_of_the_code_are_not_in_the_way(self):
        self.run_ok("printf() { echo mine; }; declare() { :; }; local() { :; }; alias builtin=false; x=1")
        self.assertEqual(self.out("echo $x; printf"), "1\nmine\n")
        self.assertEqual(self.guest.request(GET, {"names": ["x"]})[0]["variables"]["x"]["json"], "1")

    def test_deep_recursion(self):
        self.assertIn("nesting", self.fails("x=1; f() { f; }; f", 1)["stderr"])
        self.assertEqual(self.out("echo $x"), "1\n")


class EndsTest(BashTest):
    """What would end an ordinary shell ends the execution, and the session's state is kept."""

    def alive(self, wanted="5"):
        self.assertEqual(self.out("echo $x"), f"{wanted}\n")

    def test_exit(self):
        self.run_ok("x=5; f() { local x=6; exit 3; }")
        self.assertEqual(self.fails("echo a; f; echo no", 3)["stdout"], "a\n")
        self.alive()
        self.run_ok("for i in 1 2; do while :; do exit; done; done")
        self.fails("false; exit", 1)
        self.fails("exit -1", 255)
        self.fails("exit 08", 8)
        self.assertIn("numeric", self.fails("exit nothing", 2)["stderr"])
        self.assertEqual(
            self.out("(exit 4); echo $?; true | exit 5; echo $?; y=$(exit 6); echo $?; { exit 7; } & wait $!; echo $?"),
            "4\n5\n6\n7\n",
        )
        self.alive()

    def test_exit_keeps_jobs_and_descriptors(self):
        self.run_ok("sh -c 'exit 9' & job=$!; exec 7>&1; exit 0; echo no")
        self.assertEqual(self.out("wait $job; echo $?; [[ -e /proc/$$/fd/7 ]] && echo open"), "9\nopen\n")

    def test_errexit(self):
        self.run_ok("x=5")
        result = self.fails("set -euo pipefail\nf() {\n  false\n  echo no\n}\necho a\nf\necho no", 1)
        self.assertEqual(result["stdout"], "a\n")
        self.assertIn("line 3, under set -e: false", result["error"]["message"])
        self.alive()
        self.assertEqual(self.fails("echo b; false | true; echo no", 1)["stdout"], "b\n")
        self.assertEqual(self.out("if false; then :; fi; false || echo or; ! true; echo $?"), "or\n1\n")
        self.assertEqual(self.out("set +e; false; echo on"), "on\n")

    def test_errexit_with_a_trap(self):
        self.assertEqual(
            self.fails("set -e; trap 'echo err $? $LINENO' ERR\n\nfalse\necho no", 1)["stdout"], "err 1 3\n"
        )
        self.assertEqual(self.fails("false", 1)["stdout"], "err 1 1\n")
        self.assertEqual(self.fails("trap - ERR; false", 1)["stdout"], "")
        self.assertEqual(self.out("set +e; trap 'echo err' ERR; false; echo on"), "err\non\n")

    def test_unset_variables(self):
        self.run_ok("x=5; set -u")
        self.assertEqual(self.fails("echo $nope; echo no", 1)["stdout"], "")
        self.alive()
        self.assertEqual(self.fails("echo ${nope:?message}; echo no", 1)["stdout"], "")
        self.alive()

    def test_what_ends_the_shell_is_made_good(self):
        self.run_ok(
            "x=5; a=(1 'b c'); declare -A m=(['k k']=$'v\\nw'); readonly r=1; f() { echo f; }; alias ll='echo al'; "
            "cd /usr; export E=1; shopt -s nullglob; trap 'echo usr' USR1"
        )
        for code, status in (
            ("set -eu; echo a; echo $nope; echo no", 1),
            ("builtin exit 7", 7),
            ("set -o posix; exit 3", 3),
        ):
            result = self.fails(code, status)
            self.assertNotIn("no", result["stdout"])
            self.assertEqual(
                self.out(
                    "set +eu +o posix; echo $x \"${a[1]}\" ${m[k k]} $r $PWD; f; ll; sh -c 'echo $E'; shopt nullglob; "
                    "kill -USR1 $$"
                ),
                "5 b c v w 1 /usr\nf\nal\n1\nnullglob       \ton\nusr\n",
            )
        self.fails("exit 4", 4)
        self.assertEqual(self.fails("set -e; false", 1)["stdout"], "")

    def test_exit_trap(self):
        self.assertEqual(self.fails("trap 'echo bye' EXIT; exit 2", 2)["stdout"], "bye\n")
        self.assertEqual(self.fails("exit 2", 2)["stdout"], "")
        self.assertEqual(self.fails("trap 'echo bye' EXIT; set -eu; $nope", 1)["stdout"], "bye\n")
        self.assertEqual(self.out("set +eu; (trap 'echo sub' EXIT; exit 0)"), "sub\n")
        self.assertEqual(self.out("trap 'echo dbg' DEBUG; trap - DEBUG; echo on")[-3:], "on\n")

    def test_a_shell_that_is_gone(self):
        for code, status in (("exec true", 0), ("kill -9 $$", 137)):
            with BashGuest() as guest:
                guest.start("echo last; " + code)
                self.assertRaises(Lost, guest.result, 20)
                told = guest.complete({}, b"")
                self.assertEqual(told["stdout"], "last\n")
                self.assertIn(f"ended with code {status}", told["stderr"])
                self.assertEqual(guest.process.wait(10), status)

    def test_signals_to_itself(self):
        self.run_ok("x=5")
        self.fails("kill -INT $$; echo no", 130)
        self.run_ok("kill -TERM $$")
        self.alive()


class InterruptTest(BashTest):
    def interrupted(self, code, **options):
        result = self.guest.run_interrupted(code, **{"after": 0.3, **options})
        self.assertEqual(result["end"], "interrupted", result)
        self.assertEqual(result["error"]["type"], "KeyboardInterrupt")
        return result

    def test_state_is_kept(self):
        self.run_ok("x=5; f() { local x=6; g; }; g() { while :; do y=$((y + 1)); done; }")
        for code in (
            "f",
            "while :; do :; done",
            "sleep 100",
            "while :; do sleep 100; done",
            "(while :; do :; done) | cat",
            "z=$(sleep 100)",
            "sleep 100 & wait",
            "read line </dev/zero",
            "read line < <(sleep 100)",
            "cat <(sleep 100)",
            "echo {1..100000000}",
            "set -m; sleep 100",
            "eval 'source /dev/stdin' <<<'sleep 100'",
            "set -e; sleep 100",
            "set -u; sleep 100",
            "sleep 100; sleep 100; sleep 100",
            "until false; do false; done",
        ):
            with self.subTest(code=code):
                self.interrupted("echo begun; " + code + "; echo no")
                self.assertEqual(self.out("set +eum; echo $x"), "5\n")

    def test_what_resists(self):
        stubborn = f"{sys.executable} -c 'import signal, time; signal.signal(2, signal.SIG_IGN); time.sleep(100)'"
        self.run_ok("x=5")
        for code in (
            f"{stubborn}; {stubborn}",
            "trap '' INT; sleep 100; sleep 100",
            "trap 'echo int' INT; while :; do sleep 0.01; done",
            f"while :; do {stubborn}; done",
            "trap '' TERM INT HUP; while :; do :; done",
            "trap 'sleep 100' INT; sleep 100",
            "trap 'while :; do :; done' INT; sleep 100",
            "trap 'while :; do :; done' INT; while :; do :; done",
            "trap 'exit 3' INT; f() { while :; do :; done; }; f",
        ):
            with self.subTest(code=code):
                self.interrupted(code + "; echo no")
                self.assertEqual(self.out("trap - INT TERM HUP; echo $x"), "5\n")

    def test_other_processes_end(self):
        self.run_ok("sleep 300 & a=$!; (setsid sleep 300 & wait) & b=$!")
        self.interrupted("sleep 300 | sleep 300")
        self.assertEqual(
            self.out("kill -0 $a 2>/dev/null || echo gone; kill -0 $b 2>/dev/null || echo gone; jobs -r"),
            "gone\ngone\n",
        )

    def test_between_executions(self):
        self.run_ok("x=5")
        for _ in range(20):
            self.guest.interrupt()
            self.assertEqual(self.out("echo $x"), "5\n")

    def test_many(self):
        self.run_ok("n=0")
        for turn in range(20):
            self.interrupted("n=$((n + 1)); while :; do :; done", after=0.02, every=0.02)
        self.assertEqual(self.out("echo $n"), "20\n")

    def test_trap_of_the_code_runs(self):
        code = "trap 'echo int' INT; echo begun; while :; do sleep 0.01; done"
        self.assertIn("int\n", self.interrupted(code, begun=b"begun\n")["stdout"])


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


class StartTest(unittest.TestCase):
    def test_no_bash(self):
        # Nothing of the machine's own is hidden: the worker looks for a file that is there nowhere.
        class NoBash(BashGuest):
            code = BashGuest.code.replace("import worker;", "import shell, worker; shell.BASH = 'no-such-bash';")

        with NoBash(greet=False) as guest:
            guest.send(HELLO, {"protocol": 1, "session": "test", "framed_output": False})
            with self.assertRaises(Lost) as caught:
                guest.wait()
            self.assertIn("there is no bash here", str(caught.exception))
            self.assertEqual(guest.process.wait(10), 78)

    def test_runs_nothing_before_hello(self):
        with BashGuest(greet=False) as guest:
            self.assertIsNone(guest.process.poll())
            with open(f"/proc/{guest.process.pid}/task/{guest.process.pid}/children", encoding="ascii") as file:
                self.assertEqual(file.read(), "")

    def test_nothing_is_left(self):
        guest = BashGuest()
        processes = guest.run("trap '' TERM HUP; IGNOREEOF=9; sleep 300 & sleep 300 & echo $$ $!")["stdout"].split()
        guest.close()
        deadline = time.monotonic() + 30
        while any(os.path.exists(f"/proc/{process}") for process in processes) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertEqual([process for process in processes if os.path.exists(f"/proc/{process}")], [])


class InitTest(unittest.TestCase):
    """With the worker as process 1 of a pid namespace, as in a container."""

    prefix = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child")

    def setUp(self):
        try:
            subprocess.run([*self.prefix, "true"], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            self.skipTest(f"no pid namespace can be had here: {error}")
        self.guest = BashGuest(prefix=self.prefix)
        self.addCleanup(self.guest.close)

    def processes(self):
        """The worker, the shell, and what else there is, the dead that nobody buried among them."""
        told = self.guest.run("for p in /proc/[0-9]*; do echo ${p#/proc/}; done")["stdout"]
        return set(told.split())

    def wait_for(self, wanted):
        deadline = time.monotonic() + 30
        while (found := self.processes()) != wanted and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertEqual(found, wanted)

    def test_orphans_are_buried(self):
        before = self.processes()
        self.guest.run("for i in {1..20}; do (sh -c 'exit 3' &); (setsid true &); done; wait")
        self.wait_for(before)

    def test_interrupts_end_all(self):
        before = self.processes()
        self.guest.run("x=5; (setsid sleep 300 &); sh -c 'sleep 300 & sleep 300 &'")
        self.assertEqual(len(self.processes() - before), 3)
        self.assertEqual(self.guest.run_interrupted("f() { while :; do sh -c : & done; }; f")["end"], "interrupted")
        self.wait_for(before)
        self.assertEqual(self.guest.run("echo $x")["stdout"], "5\n")

    def test_the_worker_can_not_be_killed(self):
        self.assertEqual(self.guest.run("kill -9 1; kill -STOP 1; kill 1; echo on")["stdout"], "on\n")

    def test_a_shell_that_is_gone(self):
        self.guest.start("kill -9 $$")
        self.assertRaises(Lost, self.guest.result, 20)


class ProcessesTest(unittest.TestCase):
    def test_found_in_proc_and_without_it(self):
        script = "sleep 300 & sleep 300 & echo; wait"
        with subprocess.Popen(
            ["bash", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        ) as shell:
            try:
                shell.stdout.readline()
                with open(f"/proc/{shell.pid}/task/{shell.pid}/children", encoding="ascii") as file:
                    children = {int(process) for process in file.read().split()}
                self.assertEqual(len(children), 2)
                self.assertEqual(set(processes._session(shell.pid)), children)
                self.assertEqual(set(processes._tree(shell.pid)), children)
                processes.kill_others(shell.pid)
                self.assertEqual(shell.wait(30), 0)
            finally:
                shell.kill()


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


if __name__ == "__main__":
    unittest.main()
