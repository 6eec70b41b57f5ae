# SPDX-License-Identifier: Apache-2.0
"""Interrupts and memory limits of the Node worker: whatever the code does, it stops, and the session keeps state."""

import os
import signal
import tempfile
import time
import unittest

from harness import OLDEST, Guest, version

FOUND = version()
MIB = 1 << 20

# What the main thread may be doing when the signal comes.
BUSY = {
    "a loop": "for (;;);",
    "a loop that catches and cleans up": "try { for (;;); } catch { x = 0 } finally { x = 0 }",
    "a loop in a try in a loop": "for (;;) { try { for (;;); } finally { continue } }",
    "a regular expression": "/(a+)+$/.test('a'.repeat(50) + 'b')",
    "sorting": "for (;;) Array.from({length: 1e5}, Math.random).sort((a, b) => a - b)",
    "a loop after await": "await null; for (;;);",
    "a loop of promises": "while (true) await null",
    "a loop of timers": "while (true) await new Promise(r => setTimeout(r, 1))",
    "a loop of immediates": "while (true) await new Promise(setImmediate)",
    "nothing, for ever": "await new Promise(() => {})",
    "a loop in a timer": "setTimeout(() => { for (;;); }, 1); await new Promise(() => {})",
    "a loop in an interval": "setInterval(() => { for (;;); }, 1); await new Promise(() => {})",
    "a loop in an immediate": "setImmediate(() => { for (;;); }); await new Promise(() => {})",
    "a loop in a tick": "process.nextTick(() => { for (;;); }); await new Promise(() => {})",
    "a loop in a file's callback": "require('fs').readFile('/dev/null', () => { for (;;); }); await new Promise(() "
                                   "=> {})",
    "a loop in an event": "const e = new (require('events'))(); e.on('x', () => { for (;;); }); setTimeout(() => "
                          "e.emit('x'), 1); await new Promise(() => {})",
    "a loop in a stream": "require('fs').createReadStream('/dev/zero').on('data', () => { for (;;); }); await new "
                          "Promise(() => {})",
    "a loop in a thenable": "await {then() { for (;;); }}",
    "a loop in a generator": "await (async () => { for await (const a of (async function* () { for (;;) yield 1 "
                             "})()); })()",
    "a blocked thread": "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)",
    "a child that is waited for": "require('child_process').execSync('sleep 1000')",
    "a child of a child": "require('child_process').spawnSync('sh', ['-c', '(sleep 1000; true) | cat; true'])",
    "a child in the background": "require('child_process').exec('sleep 1000')",
    "showing a value": "({[Symbol.for('nodejs.util.inspect.custom')]() { for (;;); }})",
    "displaying a value": "({[Symbol.for('Jupyter.display')]() { for (;;); }})",
    "a handler of the signal's": "process.on('SIGINT', () => {}); for (;;);",
    "a loop of exits": "for (;;) try { process.emit('exit') } catch {}",
}


@unittest.skipIf(FOUND < OLDEST, f"Node {OLDEST} or later is not here (SBX_TEST_NODE names one)")
class InterruptTest(unittest.TestCase):
    options = {}

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.guest = Guest(cwd=self.directory.name, **self.options)
        self.addCleanup(self.guest.close)

    def value(self, code):
        result = self.guest.run(code)
        self.assertEqual(result["end"], "ok", result)
        return result.get("value")

    def test_whatever_the_code_does(self):
        self.value("var x = 1, runs = 0")
        for number, (what, code) in enumerate(BUSY.items(), 1):
            with self.subTest(what):
                result = self.guest.run_interrupted(f"runs++;\n{code}", after=0.2)
                self.assertEqual(result["end"], "interrupted", (what, result))
                self.assertEqual(self.value("x"), "1")
                self.assertEqual(self.value("await new Promise(r => setTimeout(() => setImmediate(r, runs), 1))"),
                                 str(number))

    def test_nothing_goes_on_after_it(self):
        code = ("var n = 0; setInterval(() => n++, 1); (async () => { for (;;) { n++; await new Promise(r => "
                "setTimeout(r, 1)) } })()")
        self.assertEqual(self.guest.run_interrupted(code, after=0.1)["end"], "interrupted")
        before = self.value("n")
        time.sleep(0.1)
        self.assertEqual(self.value("n"), before)

    def test_an_interrupt_between_executions_is_dropped(self):
        for _ in range(20):
            self.guest.interrupt()
            self.assertEqual(self.value("1"), "1")
        time.sleep(0.1)
        self.assertEqual(self.value("await new Promise(r => setTimeout(() => r(2), 50))"), "2")

    def test_many_interrupts(self):
        self.value("var kept = 'yes'")
        for number in range(30):
            self.guest.start("await null; for (;;);" if number % 2 else "for (;;);")
            for _ in range(number % 4):
                self.guest.interrupt()
                time.sleep(0.002 * (number % 7))
            result = self.interrupted_result()
            self.assertEqual(result["end"], "interrupted")
        self.assertEqual(self.value("kept"), "'yes'")

    def interrupted_result(self):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                return self.guest.result(0.15)[0]
            except TimeoutError:
                self.guest.interrupt()
        raise TimeoutError("not interrupted")

    def test_one_at_the_very_end(self):
        self.value("var kept = 'yes'")
        for number in range(60):
            self.guest.start(f"const end = performance.now() + {number % 6}; while (performance.now() < end); 1")
            time.sleep(0.001 * (number % 5))
            self.guest.interrupt()
            self.assertIn(self.interrupted_result()["end"], ("ok", "interrupted"))
        time.sleep(0.1)
        self.assertEqual(self.value("kept"), "'yes'")

    def test_the_worker_rests_afterwards(self):
        for code in ("setImmediate(() => { for (;;); }); setImmediate(() => {}); await new Promise(() => {})",
                     "for (;;);", "setTimeout(() => { for (;;); }, 1); await new Promise(() => {})"):
            self.guest.run_interrupted(code, after=0.1)
        pid = self.guest.worker_pid()
        self.value("1")

        def ticks():
            with open(f"/proc/{pid}/stat", encoding="latin1") as file:
                return sum(map(int, file.read().rpartition(")")[2].split()[11:13]))

        before = ticks()
        time.sleep(1)
        self.assertLess(ticks() - before, os.sysconf("SC_CLK_TCK") // 3)

    def test_children_end_with_the_execution(self):
        mark = f"sleep 98{os.getpid()}"
        result = self.guest.run_interrupted(f"require('child_process').exec('{mark} & wait'); await new Promise(() => {{}})", after=0.3)
        self.assertEqual(result["end"], "interrupted")
        deadline = time.monotonic() + 20
        while self.runs(mark) and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertFalse(self.runs(mark))

    @staticmethod
    def runs(mark):
        wanted = mark.replace(" ", "\0").encode()
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    if wanted in file.read():
                        return True
            except OSError:
                continue
        return False

    def test_a_call_back_is_answered_first(self):
        self.guest.start("await tools.slow()", tools=True)
        kind, header, _blob = self.guest.wait()
        self.assertEqual(kind, 0x85)
        time.sleep(0.1)  # one that is too early could be meant for the execution before
        self.guest.interrupt()
        with self.assertRaises(TimeoutError):
            self.guest.result(0.3)
        self.guest.answer(header["call"], "the execution is being stopped", False)
        self.assertEqual(self.guest.result()[0]["end"], "interrupted")
        self.assertEqual(self.value("1"), "1")


class FramedInterruptTest(InterruptTest):
    """The same behind a relay: the signal goes to the relay."""

    options = {"framed": True}

    def test_the_worker_rests_afterwards(self):
        self.guest.run_interrupted("for (;;);", after=0.1)
        self.assertEqual(self.value("1"), "1")

    test_children_end_with_the_execution = None


@unittest.skipIf(FOUND < OLDEST, f"Node {OLDEST} or later is not here (SBX_TEST_NODE names one)")
class MemoryTest(unittest.TestCase):
    LIMIT = 256 * MIB

    def setUp(self):
        self.guest = Guest(flags=[f"--max-old-space-size={self.LIMIT // MIB}"])
        self.addCleanup(self.guest.close)

    def run_limited(self, code):
        return self.guest.run(code, memory_bytes=self.LIMIT)

    def test_code_stops_at_its_limit_and_keeps_its_state(self):
        self.run_limited("var kept = 'yes', all")
        for code in ("all = []; for (;;) all.push(Buffer.alloc(1 << 20, 1))",
                     "all = []; for (;;) all.push({x: 'y'.repeat(10) + all.length})",
                     "await null; all = []; for (;;) all.push(new Array(1000).fill(0.5))"):
            with self.subTest(code):
                result = self.run_limited(code)
                self.assertEqual((result["end"], result["error"]["type"]), ("memory", "MemoryError"), result)
                self.assertEqual(self.run_limited("all = null; kept")["value"], "'yes'")

    def test_garbage_is_no_reason(self):
        code = "let sum = 0; for (let i = 0; i < 3000; i++) sum += new Array(50000).fill(i).length; sum"
        self.assertEqual(self.run_limited(code)["end"], "ok")
        self.assertEqual(self.run_limited("for (let i = 0; i < 2000; i++) Buffer.alloc(1 << 20, 1); 1")["end"], "ok")

    def test_what_can_not_be_had_at_all(self):
        result = self.run_limited("new ArrayBuffer(2 ** 48)")
        self.assertEqual(result["end"], "memory" if "allocation failed" in result["error"]["message"] else "error",
                         result)


class SignalTest(unittest.TestCase):
    @unittest.skipIf(FOUND < OLDEST, f"Node {OLDEST} or later is not here (SBX_TEST_NODE names one)")
    def test_signals_of_the_code_s_own(self):
        with Guest() as guest:
            self.assertEqual(guest.run("setTimeout(() => { process.kill(process.pid, 'SIGINT'); for (;;); }, 100); "
                                       "await new Promise(() => {})")["end"], "interrupted")
            code = "await new Promise(r => { process.once('SIGUSR2', r); process.kill(process.pid, 'SIGUSR2') }); 1"
            self.assertEqual(guest.run(code)["value"], "1")
            os.kill(guest.process.pid, signal.SIGTERM)
            self.assertEqual(guest.process.wait(30), -signal.SIGTERM)
