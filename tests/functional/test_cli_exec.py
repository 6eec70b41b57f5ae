#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`exec` and `repl` from outside: output, exit codes, interrupts, terminals, history."""
import contextlib
import json
import os
import pathlib
import select
import signal
import stat
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import main, skip  # noqa: E402
from cli_case import Sandboxed, Terminal, environment  # noqa: E402


def command_lines():
    for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield entry.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")


class Exec(Sandboxed):
    def test_output_and_value(self):
        done = self.ok("exec", "-c", "import sys\nprint('out')\nprint('err', file=sys.stderr)\n6 * 7")
        self.assertEqual(done.stdout, "out\n42\n")
        self.assertEqual(done.stderr, "err\n")

    def test_unfinished_line_before_the_value(self):
        self.assertEqual(self.ok("exec", "-c", "print('a', end='')\n'b'").stdout, "a\n'b'\n")

    def test_quiet_prints_the_output_alone(self):
        self.assertEqual(self.ok("exec", "-q", "-c", "print('a', end='')\n'b'").stdout, "a")

    def test_none_is_not_shown(self):
        self.assertEqual(self.ok("exec", "-c", "None").stdout, "")

    def test_bytes_pass_through_unchanged(self):
        done = self.run_cli("exec", "-q", "-c", "import sys; sys.stdout.buffer.write(bytes(range(256)))", binary=True)
        self.assertEqual(done.stdout, bytes(range(256)))

    def test_one_session_in_the_order_given(self):
        self.write("first.py", "x = ['file']")
        done = self.ok("exec", "first.py", "-c", "x.append('code')", "-", "-c", "print(x)", stdin="x.append('stdin')")
        self.assertEqual(done.stdout, "['file', 'code', 'stdin']\n")

    def test_standard_input(self):
        self.assertEqual(self.ok("exec", stdin="print(1)").stdout, "1\n")
        self.assertEqual(self.ok("exec", "-", stdin="print(2)").stdout, "2\n")
        self.assertEqual(self.ok("exec", stdin="").stdout, "")

    def test_files_of_any_kind(self):
        self.write("-dash.py", "print('dash')")
        self.assertEqual(self.ok("exec", "--", "-dash.py").stdout, "dash\n")
        self.assertEqual(self.ok("exec", "/dev/stdin", stdin="print('device')").stdout, "device\n")

    def test_code_longer_than_a_pipe(self):
        self.assertEqual(self.ok("exec", stdin="x = '" + "a" * 1_000_000 + "'\nprint(len(x))").stdout, "1000000\n")

    def test_everything_is_read_before_anything_runs(self):
        done = self.fails(2, "exec", "-c", "print('ran')", "missing.py", says="missing.py")
        self.assertNotIn("ran", done.stdout)
        self.fails(2, "exec", self.project, says="Is a directory")

    def test_stops_at_the_first_that_fails(self):
        done = self.run_cli("exec", "-c", "print(1)", "-c", "1/0", "-c", "print(2)")
        self.assertEqual((done.returncode, done.stdout), (1, "1\n"))

    def test_exception(self):
        path = self.write("broken.py", "def f():\n    raise ValueError('boom')\nf()\n")
        done = self.run_cli("exec", path)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn(f'File "{path}", line 2, in f', done.stderr)
        self.assertTrue(done.stderr.rstrip().endswith("ValueError: boom"), done.stderr)
        self.assertNotIn("sbx_guest", done.stderr)
        self.assertNotIn("\033", done.stderr)

    def test_syntax_error(self):
        done = self.run_cli("exec", "-c", "x = = 1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("SyntaxError", done.stderr)
        self.assertIn("<string>", done.stderr)

    def test_time_out(self):
        for code in ("while True: pass", "import time; time.sleep(1e9)"):
            begin = time.monotonic()
            done = self.run_cli("exec", "--timeout", "500ms", "-c", "x = 1", "-c", code)
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertIn("error: timeout: ", done.stderr)
            self.assertIn("--timeout", done.stderr)
            self.assertLess(time.monotonic() - begin, 30)

    def test_memory(self):
        done = self.run_cli("exec", "--profile", "quick", "-c",
                            "x = bytearray(1 << 30)\nfor i in range(0, 1 << 30, 4096): x[i] = 1")
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("error: memory: ", done.stderr)

    def test_killed_and_lost(self):
        done = self.run_cli("exec", "-c", "import os, signal; os.kill(os.getpid(), 0); os.abort()")
        self.assertEqual(done.returncode, 6, done.stderr)
        done = self.run_cli("exec", "-c", "import os; os._exit(3)")
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertIn("error: lost: ", done.stderr)

    def test_json(self):
        code = "import sys\nprint('out')\nprint('err', file=sys.stderr)\nresult = {'a': [1, None, 'ä']}\n6 * 7"
        done = self.ok("exec", "--json", "--session", "mine", "-c", code)
        self.assertEqual(done.stdout.count("\n"), 1)
        value = json.loads(done.stdout)
        wanted = {"session": "mine", "environment": "local", "end": "ok", "state": "kept", "stdout": "out\n",
                  "stderr": "err\n", "value": "42", "result": "{'a': [1, None, 'ä']}",
                  "result_json": {"a": [1, None, "ä"]}, "error": None, "notice": None, "displays": []}
        self.assertEqual({key: value[key] for key in wanted}, wanted)
        for key in ("duration_ms", "cpu_ms"):
            self.assertIsInstance(value[key], float)
        for key in ("memory_peak_bytes", "stdout_dropped_bytes", "stderr_dropped_bytes"):
            self.assertIsInstance(value[key], int)
        self.assertEqual(done.stderr, "")

    def test_json_is_one_line_for_each_piece(self):
        done = self.run_cli("exec", "--json", "-c", "x = 1", "-c", "x + 1", "-c", "1/0", "-c", "never")
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([line["end"] for line in lines], ["ok", "ok", "error"])
        self.assertEqual(lines[1]["value"], "2")
        self.assertEqual(lines[2]["error"]["type"], "ZeroDivisionError")
        self.assertIn("division by zero", lines[2]["error"]["message"])
        self.assertIn("Traceback", lines[2]["error"]["traceback"])
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "")

    def test_json_of_hostile_output(self):
        code = "import sys; sys.stdout.buffer.write(b'\\xff\\x00\\xed\\xa0\\x80ok'); result = '\\ud800'"
        value = json.loads(self.ok("exec", "--json", "-c", code).stdout)
        self.assertEqual(value["stdout"][-2:], "ok")

    def test_displays(self):
        code = "class A:\n def _repr_html_(self): return '<b>x</b>'\n def __repr__(self): return 'A!'\nA()"
        value = json.loads(self.ok("exec", "--json", "-c", code).stdout)
        self.assertIn({"mime": "text/html", "data": "<b>x</b>"}, value["displays"])
        self.assertIn("text/html", self.ok("exec", "-c", code).stderr)

    def test_report(self):
        done = self.ok("exec", "--report", "-c", "print(1)")
        self.assertEqual(done.stdout, "1\n")
        self.assertRegex(done.stderr, r"(?m)^isolation: \w+ \(local\)")
        self.assertIn("applied", done.stderr)
        lines = self.ok("exec", "--report", "--json", "-c", "1").stdout.splitlines()
        self.assertEqual(len(lines), 2)
        self.assertEqual(json.loads(lines[1])["report"]["backend"], "local")

    def test_output_beyond_the_limit_is_counted(self):
        done = self.run_cli("exec", "--set", "max_output_bytes=1k", "--json", "-c", "print('x' * 100000)")
        value = json.loads(done.stdout)
        self.assertEqual(len(value["stdout"]) + value["stdout_dropped_bytes"], 100001)
        done = self.ok("exec", "--set", "max_output_bytes=1k", "-c", "print('x' * 100000)")
        self.assertIn("standard output were dropped", done.stderr)

    def test_output_comes_while_the_code_runs(self):
        process = self.start("exec", "-c", "import time\nprint('now', flush=True)\ntime.sleep(60)",
                             stdout=subprocess.PIPE)
        self.assertTrue(select.select([process.stdout], [], [], 30)[0])
        self.assertEqual(os.read(process.stdout.fileno(), 100), b"now\n")
        self.assertIsNone(process.poll())

    def test_interrupt(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
            process = self.start("exec", "-c", "print('ready', flush=True)\nwhile True: pass", stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE)
            self.assertEqual(process.stdout.readline(), b"ready\n")
            process.send_signal(number)
            self.assertEqual(process.wait(30), code)

    def test_second_interrupt_quits(self):
        code = "print('ready', flush=True)\nsum(range(10 ** 15))"  # one call that looks at no signal
        process = self.start("exec", "--set", "interrupt_grace=60s", "-c", code, stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(30), -signal.SIGINT)

    def test_nobody_reads_the_output(self):
        process = self.start("exec", "-c", "while True: print('x' * 1000)", stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
        process.stdout.read(10)
        process.stdout.close()
        self.assertEqual(process.wait(30), 141)
        self.assertEqual(process.stderr.read(), b"")

    def test_nothing_is_left_behind(self):
        process = self.start("exec", "-c", "import subprocess, time\nsubprocess.Popen(['sleep', '1234.5'])\n"
                             "print('x', flush=True)\ntime.sleep(60)", stdout=subprocess.PIPE)
        process.stdout.readline()
        process.kill()
        process.wait()
        deadline = time.monotonic() + 20
        while any("1234.5" in line for line in command_lines()):
            self.assertLess(time.monotonic(), deadline, "a process outlived the program")
            time.sleep(0.1)


class OnTerminal(Sandboxed):
    def test_escape_sequences_are_shown(self):
        terminal = Terminal(self, "exec", "-c", r"print('\x1b]0;title\x07 \x1b[6n \x1b[31mred\x1b[0m'); '\x1b[2J'")
        self.assertEqual(terminal.exit_code(), 0)
        self.assertNotIn("\x1b]", terminal.text)
        self.assertNotIn("\x1b[6n", terminal.text)
        self.assertIn("^[]0;title^G", terminal.text)
        self.assertIn("\x1b[31mred\x1b[0m", terminal.text)

    def test_colour_on_a_terminal_alone(self):
        terminal = Terminal(self, "exec", "-c", "1/0")
        self.assertEqual(terminal.exit_code(), 1)
        self.assertRegex(terminal.text, "\x1b\\[31mZeroDivisionError")
        for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            terminal = Terminal(self, "exec", "-c", "1/0", **env)
            self.assertEqual(terminal.exit_code(), 1)
            self.assertNotIn("\x1b", terminal.text)
        terminal = Terminal(self, "exec", "-c", "1/0", NO_COLOR="")
        terminal.exit_code()
        self.assertIn("\x1b", terminal.text)

    def test_no_code_on_a_terminal(self):
        terminal = Terminal(self, "exec")
        self.assertEqual(terminal.exit_code(), 2)
        self.assertIn("no code to run", terminal.text)

    def test_interrupt_by_key(self):
        terminal = Terminal(self, "exec", "-c", "print('ready', flush=True)\nwhile True: pass")
        terminal.expect("ready")
        terminal.send("\x03")
        self.assertEqual(terminal.exit_code(), 130)
        self.assertIn("KeyboardInterrupt", terminal.text)


class Repl(Sandboxed):
    PROMPT = r">>> (\x1b\[[0-9;]*[A-Za-z])*$"

    def open(self, *args, **env):
        terminal = Terminal(self, "repl", *args, **env)
        terminal.expect(self.PROMPT, 60)
        return terminal

    def type(self, terminal, text, *patterns, prompt=PROMPT):
        terminal.send(text)
        found = [terminal.expect(pattern) for pattern in patterns]
        if prompt:
            terminal.expect(prompt)
        return found

    def test_statements_and_values(self):
        terminal = self.open()
        self.type(terminal, "x = 6\n")
        self.type(terminal, "x * 7\n", r"\n42\r\n")
        self.type(terminal, "'ä' + 'b'\n", r"\n'äb'\r\n")
        self.type(terminal, "1/0\n", "ZeroDivisionError")
        self.type(terminal, "x\n", r"\n6\r\n")
        terminal.send("\x04")
        self.assertEqual(terminal.exit_code(), 0)

    def test_several_lines(self):
        terminal = self.open()
        self.type(terminal, "def f(a,\n", prompt=r"\.\.\. $")
        self.type(terminal, "      b):\n", prompt=r"\.\.\. $")
        self.type(terminal, "    return a + b\n", prompt=r"\.\.\. $")
        self.type(terminal, "\n")
        self.type(terminal, "f(1, 2)\n", r"\n3\r\n")
        self.type(terminal, "'''a\n", prompt=r"\.\.\. $")
        self.type(terminal, "b'''\n", r"\n'a\\nb'\r\n")

    def test_interrupt_keeps_the_shell_and_the_variables(self):
        terminal = self.open()
        self.type(terminal, "x = 'kept'\n")
        terminal.send("print('run' + 'ning', flush=True)\n")
        terminal.expect("running")
        terminal.expect(self.PROMPT)
        terminal.send("while True: pass\n")
        terminal.expect(r"\.\.\. $")
        terminal.send("\n")
        time.sleep(0.5)
        terminal.send("\x03")
        terminal.expect("KeyboardInterrupt")
        terminal.expect(self.PROMPT)
        self.type(terminal, "x\n", r"\n'kept'\r\n")

    def test_interrupt_at_the_prompt_drops_the_line(self):
        terminal = self.open()
        terminal.send("nonsense(")
        terminal.expect(r"nonsense\(")
        terminal.send("\x03")
        terminal.expect(self.PROMPT)
        self.type(terminal, "(1 +\n", prompt=r"\.\.\. $")
        terminal.send("\x03")
        terminal.expect(self.PROMPT)
        self.type(terminal, "'al' + 'ive'\n", r"\n'alive'\r\n")

    def test_commands(self):
        terminal = self.open()
        self.type(terminal, "answer = 42\n")
        self.type(terminal, "%vars\n", r"answer.*int.*42")
        self.type(terminal, "%session other\n", prompt="other >>> $")
        self.type(terminal, "'answer' in globals()\n", r"\nFalse\r\n", prompt="other >>> $")
        self.type(terminal, "%session default\n")
        self.type(terminal, "answer\n", r"\n42\r\n")
        self.type(terminal, "%report\n", "isolation: ", "applied")
        self.type(terminal, "%clear\n", "are gone")
        self.type(terminal, "answer\n", "NameError")
        self.type(terminal, "%help\n", "%vars", "%session NAME")
        self.type(terminal, "%vras\n", "no command %vras", "did you mean %vars")
        self.type(terminal, "%session bad/name\n", "no session can have the name 'bad/name'")

    def test_ways_to_leave(self):
        for farewell in ("\x04", "exit\n", "quit()\n"):
            terminal = self.open()
            terminal.send(farewell)
            self.assertEqual(terminal.exit_code(), 0)
        terminal = self.open()
        os.kill(terminal.pid, signal.SIGTERM)
        self.assertEqual(terminal.exit_code(), 143)

    def test_time_out_keeps_the_shell(self):
        terminal = self.open("--timeout", "500ms")
        self.type(terminal, "x = 1\n")
        self.type(terminal, "while True: pass\n\n", "timeout")
        self.type(terminal, "x\n", r"\n1\r\n")

    def test_lost_guest_is_told(self):
        terminal = self.open("--set", "local.checkpoint=off")
        self.type(terminal, "x = 1\n")
        self.type(terminal, "import os; os._exit(3)\n", "lost")
        self.type(terminal, "'x' in globals()\n", r"\nFalse\r\n")

    def test_history(self):
        terminal = self.open()
        if "without libedit" in terminal.text:
            skip("this build is without libedit")
        self.type(terminal, "'remember' + 'ed'\n", "'remembered'")
        terminal.send("\x04")
        self.assertEqual(terminal.exit_code(), 0)
        path = pathlib.Path(self.home, "state", "snipara-sandbox", "history")
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(path.parent.stat().st_mode), 0o700)
        terminal = self.open()
        self.type(terminal, "\x1b[A\n", "'remembered'")

    def test_history_does_not_follow_a_link(self):
        target = self.write("precious", "untouched")
        directory = pathlib.Path(self.home, "state", "snipara-sandbox")
        directory.mkdir(parents=True, mode=0o700)
        directory.joinpath("history").symlink_to(target)
        terminal = self.open()
        self.type(terminal, "1\n")
        terminal.send("\x04")
        self.assertEqual(terminal.exit_code(), 0)
        self.assertEqual(target.read_text(), "untouched")

    def test_piped(self):
        done = self.ok("repl", stdin="x = 1\ndef f():\n  return x + 1\n\nf()\n%vars\nprint('end')")
        self.assertEqual(done.stdout.splitlines()[0], "2")
        self.assertIn("end", done.stdout)
        self.assertNotIn(">>>", done.stdout)

    def test_bad_arguments(self):
        self.fails(2, "repl", "--profile", "huge", says="huge")
        self.fails(2, "repl", "--timeout", "0", says="--timeout 0")


if __name__ == "__main__":
    main()
