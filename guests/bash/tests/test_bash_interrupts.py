# SPDX-License-Identifier: Apache-2.0
"""The Bash worker over the guest protocol: interrupts."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from bash_case import BashTest


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


if __name__ == "__main__":
    unittest.main()
