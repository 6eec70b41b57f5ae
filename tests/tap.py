# SPDX-License-Identifier: Apache-2.0
"""Runs test functions and unittest classes and prints TAP version 13; standard library only.

At the end of a test file (in tests/<kind>/):

    import os, sys
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    from tap import main, skip
    ...
    if __name__ == "__main__":
        main()

or, without those lines: `python3 tests/tap.py FILE [PATTERN...]`. A test is a module-level function or a method of a
unittest.TestCase whose name begins with `test`; a PATTERN (fnmatch, or a part of the name) selects some of them.

A test fails by raising, and is skipped by skip("why"), unittest.SkipTest or the unittest decorators. What tests print
and what their children write to file descriptor 1 does not reach the TAP stream: prints become "# ..." lines,
descriptor 1 is standard error. A failed test dumps its traceback; a test that hangs for TAP_TIMEOUT seconds (environment;
default 600, 0: none) ends the run with all threads' tracebacks. Exit code: 0 when nothing failed, else 1.
"""
import faulthandler
import fnmatch
import importlib.util
import io
import os
import signal
import sys
import traceback
import unittest

__all__ = ["main", "run", "skip", "Skip", "note"]

Skip = unittest.SkipTest


def skip(reason):
    """Ends the running test as skipped."""
    raise Skip(reason)


def note(text):
    """Prints a diagnostic, as print() inside a test does."""
    print(text)


class _Diagnostics(io.TextIOBase):
    """A text stream that turns every line into a TAP comment."""

    def __init__(self, stream):
        self.stream = stream
        self.pending = ""

    def writable(self):
        return True

    def write(self, text):
        *lines, self.pending = (self.pending + text).split("\n")
        for line in lines:
            self.stream.write("# %s\n" % line.replace("\r", "\\r"))
        self.stream.flush()
        return len(text)

    def finish(self):
        if self.pending:
            self.write("\n")


class _Result(unittest.TestResult):
    def __init__(self, stream, total):
        super().__init__()
        self.stream = stream
        self.timeout = float(os.environ.get("TAP_TIMEOUT") or 600)
        self.count = 0
        self.failed = 0
        self.reported = set()
        self.subtest_errors = []
        self.class_outcome = {}
        self.diagnostics = _Diagnostics(stream)
        stream.write("TAP version 13\n1..%d\n" % total)
        stream.flush()

    def report(self, test, ok, directive="", details=()):
        self.diagnostics.finish()
        self.count += 1
        self.failed += 0 if ok else 1
        self.reported.add(test.id())
        self.stream.write("%s %d - %s%s\n" % ("ok" if ok else "not ok", self.count, _name(test), directive))
        for detail in details:
            for line in detail.rstrip().splitlines():
                self.stream.write("# %s\n" % line)
        self.stream.flush()

    def startTest(self, test):
        super().startTest(test)
        self.subtest_errors = []
        if self.timeout > 0:
            faulthandler.dump_traceback_later(self.timeout, exit=True)

    def stopTest(self, test):
        super().stopTest(test)
        faulthandler.cancel_dump_traceback_later()
        if self.subtest_errors:
            self.report(test, False, details=self.subtest_errors)

    def fail(self, test, error):
        if isinstance(test, unittest.TestCase):
            self.report(test, False, details=["".join(traceback.format_exception(*error))])
        else:  # a class or module fixture: told for each of its tests by finish()
            self.class_outcome[test.id()] = (False, "".join(traceback.format_exception(*error)))

    def addSuccess(self, test):
        self.report(test, True)

    def addError(self, test, err):
        self.fail(test, err)

    def addFailure(self, test, err):
        self.fail(test, err)

    def addSkip(self, test, reason):
        if isinstance(test, unittest.TestCase):
            self.report(test, True, " # SKIP %s" % " ".join(str(reason).split()))
        else:
            self.class_outcome[test.id()] = (True, reason)

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.subtest_errors.append("%s\n%s" % (subtest.id(), "".join(traceback.format_exception(*err))))

    def addExpectedFailure(self, test, err):
        self.report(test, True, " # expected failure")

    def addUnexpectedSuccess(self, test):
        self.report(test, False, details=["passed, though it is marked as an expected failure"])

    def finish(self, tests):
        """Reports the tests whose class or module fixture kept them from running."""
        for test in tests:
            if test.id() in self.reported:
                continue
            ok, reason = False, "not run"
            for fixture, outcome in self.class_outcome.items():
                scope = fixture.partition("(")[2].rstrip(")")
                if scope and test.id().startswith(scope):
                    ok, reason = outcome
            if ok:
                self.report(test, True, " # SKIP %s" % " ".join(str(reason).split()))
            else:
                self.report(test, False, details=[str(reason)])
        for fixture, (ok, reason) in self.class_outcome.items():
            if not ok and fixture.startswith("tearDown"):  # its tests have been reported; the run fails all the same
                self.failed += 1
                self.stream.write("# %s\n" % fixture)
                for line in reason.splitlines():
                    self.stream.write("# %s\n" % line)
        self.diagnostics.finish()
        self.stream.write("# %d run, %d failed\n" % (self.count, self.failed))
        self.stream.flush()


class _Function(unittest.FunctionTestCase):
    def id(self):
        return "%s.%s" % (self._testFunc.__module__, self._testFunc.__name__)


def _name(test):
    """The test's name without its module, safe in a TAP line."""
    return test.id().split(".", 1)[-1].replace("#", "\\#").replace("\n", " ")


def _flatten(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from _flatten(test)
        else:
            yield test


def _collect(module, patterns):
    suite = unittest.TestSuite()
    suite.addTests(unittest.defaultTestLoader.loadTestsFromModule(module))
    for name, value in list(vars(module).items()):
        if name.startswith("test") and callable(value) and not isinstance(value, type) \
                and getattr(value, "__module__", None) == module.__name__:
            suite.addTest(_Function(value))
    tests = list(_flatten(suite))
    if patterns:
        tests = [t for t in tests if any(p in _name(t) or fnmatch.fnmatch(_name(t), p) for p in patterns)]
    return tests


def run(module, patterns=()):
    """Runs the tests of a module; returns the process's exit code."""
    # A shell's background job ignores SIGINT, and so would all that tests start: they begin as from a terminal.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdout.flush()
    stream = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="backslashreplace")
    os.dup2(2, 1)  # children may write to their standard output
    tests = _collect(module, patterns)
    if not tests:
        stream.write("TAP version 13\n1..0 # SKIP no test matches\n")
        stream.close()
        return 0 if not patterns else 1
    result = _Result(stream, len(tests))
    saved, sys.stdout = sys.stdout, result.diagnostics
    try:
        unittest.TestSuite(tests).run(result)
    finally:
        sys.stdout = saved
        result.finish(tests)
        stream.close()
    return 1 if result.failed else 0


def main(module="__main__"):
    """Runs the tests of the calling file and exits."""
    sys.exit(run(sys.modules[module], sys.argv[1:]))


def _main_of_file():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: tap.py FILE [PATTERN...]")
    path = os.path.abspath(sys.argv[1])
    sys.modules["tap"] = sys.modules["__main__"]  # a test's `from tap import skip` is this module, not a copy
    sys.path.insert(0, os.path.dirname(path))
    spec = importlib.util.spec_from_file_location(os.path.basename(path).rpartition(".")[0], path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Skip as reason:
        print("TAP version 13\n1..0 # SKIP %s" % reason)
        sys.exit(0)
    sys.exit(run(module, sys.argv[2:]))


if __name__ == "__main__":
    _main_of_file()
