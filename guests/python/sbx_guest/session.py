# SPDX-License-Identifier: Apache-2.0
"""What lasts between the executions of a session: its namespace, its streams, and what it was given."""

import builtins
import os
import sys

from . import hooks
from .display import Display
from .interrupts import Interrupts
from .sources import Sources
from .tools import Tools
from .variables import Context

_Module = type(sys)
_RECURSION_MIN = 200


class Session:
    """One for each guest."""

    def __init__(self, channel, interrupts: Interrupts, streams, memory):
        self.channel = channel
        self.interrupts = interrupts
        self.streams = streams
        self.sources = Sources()
        self.memory = memory
        self.display = Display(channel)
        self.workspace = os.getcwd()
        self.module = _Module("__main__")
        self.namespace = self.module.__dict__
        self.tools = Tools(channel, interrupts, self.namespace)
        self.names = None  # as the host last heard of them
        self.loop = None
        self.forked = False  # os.fork was called: children exist that nobody but the user's code knows
        self._pid = os.getpid()
        self.is_init = self._pid == 1
        self.copy_maker = self.copies = None  # where the backend asks for copies of this process
        self.has_init = False  # process 1 is one that buries orphans and does nothing else
        self.context = Context(self.namespace)
        self._settle()

    def _settle(self):
        sys.modules["__main__"] = self.module
        self.namespace["__builtins__"] = builtins
        sys.argv = [""]
        sys.dont_write_bytecode = True
        if "" not in sys.path:
            sys.path.insert(0, "")
        os.environ.setdefault("MPLBACKEND", "Agg")
        self.path, self.environment = list(sys.path), dict(os.environ)
        self._add_builtins()
        watcher = hooks.Watcher()
        watcher.when_imported("linecache", self.sources.attach)
        watcher.when_imported("matplotlib.pyplot", self.display.patch_pyplot)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_parent=self._after_fork, after_in_child=self._become_child)

    def _after_fork(self):
        self.forked = True

    def _become_child(self):
        # A child never speaks for the session, nor takes what others wrote.
        self.channel.close()
        self.streams.pump = None
        if self.copies is not None:
            self.copies.close()
        elif self.copy_maker is not None:
            os.close(self.copy_maker.fd)

    def moved(self):
        """The session goes on in another process, or this is a copy of it."""
        self._pid = os.getpid()
        self.is_init = self._pid == 1
        self.has_init = not self.is_init
        self.forked = False

    def _add_builtins(self):
        builtins.input = _input
        builtins.context = self.context
        builtins.display = self.display.display
        self._restore_builtins()
        # Without the `site` module these are missing.
        for name, value in (("exit", _exit), ("quit", _exit), ("help", _help)):
            if not hasattr(builtins, name):
                setattr(builtins, name, value)

    def _restore_builtins(self):
        known = builtins.__dict__
        for name, value in self.tools.builtins.items():
            if known.get(name) is not value:  # writing what is there already would cost the interpreter its caches
                known[name] = value

    def hint(self, _error):
        """What to add to the text of an error: guests that lack something say so here."""
        return None

    def begin(self):
        """Takes back what an earlier execution did to the streams, to SIGINT and to code mode's names."""
        self.interrupts.reset()
        self.streams.restore()
        self._restore_builtins()
        sys.modules["__main__"] = self.module

    def guard(self, function, *arguments):
        """Calls what may run the user's code: (value, None) or (None, exception). A forked child never comes back."""
        value, error = self.interrupts.guard(function, *arguments)
        if os.getpid() != self._pid:
            self._leave_child(error)
        if sys.getrecursionlimit() < _RECURSION_MIN:
            sys.setrecursionlimit(1000)
        try:
            return value, error
        finally:  # as in Interrupts.guard, whose frame leads to this one
            value = error = None

    def _leave_child(self, error):
        code = 0
        try:
            self._become_child()  # again, for a fork that Python did not see
            if isinstance(error, SystemExit):
                code = error.code if isinstance(error.code, int) else int(error.code is not None)
            elif error is not None:
                from .tracebacks import print_error

                code = 1
                print_error(error, self.namespace, self.sources.lines)
            self.streams.flush()
            for stream in self.streams.replaced():
                stream.flush()
        finally:
            os._exit(code & 0xFF)

    def clear(self):
        """Ends with an empty namespace; modules stay imported. What was in it is returned: dropping it runs user code."""
        old = dict(self.namespace)
        self.namespace.clear()
        for name in ("__name__", "__doc__", "__package__", "__loader__", "__spec__"):
            self.namespace[name] = None
        self.namespace["__name__"] = "__main__"
        self.namespace["__builtins__"] = builtins
        return old


def reseed():
    """Sessions are clones of one process: gives this one random numbers of its own."""
    module = sys.modules.get("random")
    if module is not None:
        module.seed()
    module = sys.modules.get("numpy.random")
    if module is not None:
        module.seed()
    module = sys.modules.get("tempfile")
    if module is not None:
        module._name_sequence = None  # it has a generator of its own, which is made anew


def _input(prompt="", /):
    raise EOFError(
        "input() is not available: there is nobody to answer in this session. "
        "Pass data as variables or write it into the code."
    )


def _exit(code=None):
    """Ends the execution; the session goes on."""
    raise SystemExit(code)


def _help(*arguments):
    import pydoc

    return pydoc.help(*arguments)
