# SPDX-License-Identifier: Apache-2.0
"""Runs one file of CPython's own tests where it stands: in a session, or in a native interpreter for comparison.

The harness puts a dictionary JOB before it: "module", "skip" (ids of tests), "resources", "archive" (of the package
`test`, or null: it is there), "library" (where to put it). What comes of each test is written to descriptor 1 as a line
of its own, at once, so that a test that takes the interpreter with it hides none that came before."""
import importlib
import json
import os
import sys
import tarfile
import time
import traceback
import types
import unittest
import warnings

MODULE, SKIP = JOB["module"], set(JOB["skip"])
MARK = "\n\x1e"
TEXT_MAX = 3000
# Modules that CPython builds for its own tests alone; its other ways to import them skip the test where they are missing.
FOR_TESTS = ("_testcapi", "_testinternalcapi", "_testbuffer", "_testimportmultiple", "_testmultiphase", "_xxtestfuzz",
             "_testclinic", "_ctypes_test")
# They take no more of _testcapi than what C's limits are.
LIMITS_ALONE = ("test_sqlite3", "test_format", "test_fileio")


told = set()


def tell(**facts):
    told.add(facts.get("test"))
    data = (MARK + json.dumps(facts) + "\n").encode()
    while data:
        data = data[os.write(1, data):]


def ending(text):
    return text if len(text) <= TEXT_MAX else "..." + text[-TEXT_MAX:]


class Result(unittest.TestResult):
    """Tells of each test as it ends; one with failing parts (subTest) fails once, with the first one's text."""

    def __init__(self):
        super().__init__()
        self.broken = None

    def startTest(self, test):
        super().startTest(test)
        self.broken = None
        tell(begins=test.id())

    def outcome(self, test, word, why=""):
        tell(test=test.id(), outcome=word, why=ending(why))

    def addSuccess(self, test):
        if self.broken is not None:
            self.outcome(test, "failed", self.broken)
        else:
            self.outcome(test, "passed")

    def addError(self, test, err):
        if isinstance(err[1], ModuleNotFoundError) and err[1].name in FOR_TESTS:
            self.addSkip(test, "%s, a module for tests of CPython's C interface, is not there" % err[1].name)
            return
        self.outcome(test, "failed", "".join(traceback.format_exception(*err)))

    def addFailure(self, test, err):
        self.outcome(test, "failed", "".join(traceback.format_exception(*err)))

    def addSkip(self, test, reason):
        self.outcome(test, "skipped", str(reason))

    def addExpectedFailure(self, test, err):
        self.outcome(test, "passed")

    def addUnexpectedSuccess(self, test):
        self.outcome(test, "failed", "passed, though it is marked as an expected failure")

    def addSubTest(self, test, subtest, err):
        if err is not None and self.broken is None:
            self.broken = subtest.id() + "\n" + "".join(traceback.format_exception(*err))

    def stopTest(self, test):
        # A test whose parts failed may end by none of the above.
        if self.broken is not None and test.id() not in told:
            self.outcome(test, "failed", self.broken)
        super().stopTest(test)


class Left(unittest.TestCase):
    """In the place of a test that ended the interpreter in a run before."""

    def __init__(self, test):
        super().__init__()
        self.test = test

    def id(self):
        return self.test.id()

    def run(self, result=None):
        return result

    runTest = run


def without_skipped(suite):
    if not isinstance(suite, unittest.TestSuite):
        return Left(suite) if suite.id() in SKIP else suite
    return suite.__class__([without_skipped(test) for test in suite])


def unpack():
    """The package `test`, and a directory to run in."""
    sys.path.insert(0, JOB["library"])
    if JOB["archive"]:
        with tarfile.open(JOB["archive"]) as archive:
            archive.extractall(JOB["library"])
        os.unlink(JOB["archive"])
        importlib.invalidate_caches()
    place = os.path.join(os.environ.get("TMPDIR", "/tmp"), "place")
    os.makedirs(place, exist_ok=True)
    os.chdir(place)


def give_limits():
    """What C's limits are here, as _testcapi tells them."""
    import struct  # not above: a test lists the names of __main__
    limits = types.ModuleType("_testcapi")
    for name, letter in (("CHAR", "b"), ("SHRT", "h"), ("INT", "i"), ("LONG", "l"), ("LLONG", "q"), ("PY_SSIZE_T", "n")):
        bits = 8 * struct.calcsize(letter)
        setattr(limits, name + "_MAX", (1 << bits - 1) - 1)
        setattr(limits, name + "_MIN", -(1 << bits - 1))
        setattr(limits, "U" + name + "_MAX", (1 << bits) - 1)
    sys.modules["_testcapi"] = limits


def run_module(result):
    if MODULE in LIMITS_ALONE:
        give_limits()
    from test import support
    support.use_resources = JOB["resources"]
    support.verbose = 0
    support.record_original_stdout(sys.stdout)
    module = importlib.import_module("test." + MODULE)
    if hasattr(module, "test_main"):
        support._run_suite = lambda suite: without_skipped(suite).run(result)
        module.test_main()
        if not told:  # it has no test cases, and would have raised
            tell(module=MODULE, outcome="passed", why="")
        return
    loader = unittest.TestLoader()
    suite = loader.loadTestsFromModule(module)
    for error in loader.errors:
        tell(module=MODULE, outcome="failed", why=ending(error))
    without_skipped(suite).run(result)


def main():
    began = time.monotonic()
    try:
        unpack()
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            run_module(Result())
    except unittest.SkipTest as reason:
        tell(module=MODULE, outcome="skipped", why=str(reason))
    except Exception as error:
        tell(module=MODULE, outcome="failed", why=ending("".join(traceback.format_exception(error))))
    tell(end=MODULE, seconds=round(time.monotonic() - began, 2))


main()
