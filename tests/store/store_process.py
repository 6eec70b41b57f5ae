# SPDX-License-Identifier: Apache-2.0
"""A process with a store in it (store-drive), as one machine among others."""
import os
import signal
import subprocess


class Store:
    def __init__(self, *arguments, environment=None):
        command = [os.environ["STORE_DRIVE"], os.environ["STORE_PLUGIN"], *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=dict(os.environ, **(environment or {})))

    def send(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def receive(self):
        """What it answers; None: it is dead."""
        line = self.process.stdout.readline()
        return line.rstrip("\n") if line.endswith("\n") else None

    def ask(self, line, *settings):
        """`settings` are lines that have no answer of their own: "deadline 100"."""
        for setting in settings:
            self.send(setting)
        self.send(line)
        answer = self.receive()
        assert answer is not None, "the process died of: " + line
        return answer

    def do(self, line):
        answer = self.ask(line)
        assert answer == "ok" or answer.startswith("ok "), "%s: %s" % (line, answer)
        return answer[3:]

    def fails(self, line, code, *settings):
        answer = self.ask(line, *settings)
        assert answer.startswith("error %s " % code), "%s: %s instead of %s" % (line, answer, code)
        return answer

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)

    def close(self):
        """Ends it in order: it frees what it has (leak checkers look at that)."""
        if self.process.stdin is not None and not self.process.stdin.closed:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass
        code = self.process.wait(60)
        self.process.stdout.close()
        return code

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        code = self.close()
        if kind is None:
            assert code in (0, -signal.SIGKILL), "the process ended with %d" % code
