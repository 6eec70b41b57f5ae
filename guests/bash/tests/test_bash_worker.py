# SPDX-License-Identifier: Apache-2.0
"""The Bash worker as a plain process, driven over the guest protocol: executions, their ends, starts."""

import os
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from bash_case import MIB, BashTest
from bash_guest import BashGuest
from harness import GET, HELLO, Lost

from sbx_bash import processes  # noqa: E402 - bash_guest says where it is


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


if __name__ == "__main__":
    unittest.main()
