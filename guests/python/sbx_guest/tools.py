# SPDX-License-Identifier: Apache-2.0
"""Calls that the user's code makes back to the host: one at a time, on the control stream."""

from _thread import get_ident

from . import frames, jsontext

ARGUMENTS_MAX = 16 << 20
NAME_MAX = 128
_NOT_HERE = (
    "no tools can be called from this execution: it is not part of a run, or code mode is off (setting code_mode)"
)


class ToolError(Exception):
    """A tool of the host failed; the message is what it said."""

    __module__ = "builtins"


class LLMError(Exception):
    """A query failed. Of a batch: ``results`` and ``errors``, each with None where the other has something."""

    __module__ = "builtins"

    def __init__(self, message="", results=None, errors=None):
        super().__init__(message)
        self.results = results
        self.errors = errors


class Tools:
    """The built-in names of code mode. What they do beyond a call is in ``codemode``, which few sessions need."""

    def __init__(self, channel, interrupts, namespace):
        self._channel = channel
        self._interrupts = interrupts
        interrupts.protect(Tools._send)  # an interrupt must not come between a frame and the note of it
        interrupts.protect(Tools._receive)
        self._calls = 0
        self._pending = 0  # the call whose answer has not been taken
        self._busy = False
        self._main = get_ident()
        self.namespace = namespace
        self.enabled = False
        self.builtins = {
            "FINAL": self.FINAL,
            "FINAL_VAR": self.FINAL_VAR,
            "LLMError": LLMError,
            "ToolError": ToolError,
            "call_tool": self.call_tool,
            "llm_batch": self.llm_batch,
            "llm_query": self.llm_query,
            "tools": Namespace(self),
        }

    # ---- what the code sees ----

    def call_tool(self, name, /, **arguments):
        """Calls a tool of the host and returns its result object."""
        return self.request(name, plain(arguments))

    def llm_query(self, prompt, *, system=None, max_tokens=None, context_query=None):
        """The model's answer to a prompt, as text."""
        from . import codemode

        return codemode.query(self, prompt, system, max_tokens, context_query)

    def llm_batch(self, prompts, *, system=None, max_tokens=None, max_parallel=None):
        """The model's answers to many prompts, side by side. A prompt is text, or a dict with "query" and "system"."""
        from . import codemode

        return codemode.batch(self, prompts, system, max_tokens, max_parallel)

    def FINAL(self, answer, /):  # noqa: N802
        """Gives the answer of the run. The code goes on; the run ends after it."""
        from . import codemode

        codemode.final(self, answer)

    def FINAL_VAR(self, name, /):  # noqa: N802
        """Gives the value of a variable as the answer of the run."""
        from . import codemode

        codemode.final_var(self, name)

    # ---- the call ----

    def check(self, error=ToolError):
        """Raises ``error`` where no call can be made."""
        if not self.enabled:
            raise error(_NOT_HERE)
        if get_ident() != self._main:
            raise error("the host can be called from the main thread only; llm_batch asks many queries side by side")
        if self._channel.write_fd < 0:
            raise error("a forked process can't call the host of its session")
        if self._busy:  # a signal handler or a destructor, while a call is under way
            raise error("the host can be called once at a time only")

    def request(self, name, text, error=ToolError):
        """Calls the host: the value of its result. ``text``: bytes of the arguments' JSON. ``error``: what failures are."""
        if not isinstance(name, str) or not 0 < len(name) <= NAME_MAX:
            raise TypeError(f"the name of a tool is a str of 1 to {NAME_MAX} characters")
        self.check(error)
        self._busy = True
        try:
            if self._pending:  # the code gave up on it, by an exception of a signal handler
                self._take(self._pending)
            self._calls += 1
            self._send(jsontext.dumps({"call": self._calls, "name": jsontext.clean(name)}), text)
            good, value = self._take(self._calls)
        finally:
            self._busy = False
        if not good:
            raise error(value if isinstance(value, str) else str(value))
        return value

    def _send(self, header, text):
        self._pending = self._calls
        try:
            self._channel.send(frames.TOOL_CALL, header, text)
        except OSError:
            self._pending = 0
            raise

    def _receive(self):
        frame = self._channel.receive()
        self._pending = 0
        return frame

    def _take(self, call):
        """(did it succeed, the value) of the answer. The waiting can be interrupted."""
        from select import POLLIN, poll

        waiter = poll()
        waiter.register(self._channel.read_fd, POLLIN)
        if not self._channel.has_more():
            waiter.poll()  # here an interrupt may end the waiting; the rest of a frame follows at once
        frame = self._receive()
        self._interrupts.deliver()
        if frame is None:
            raise SystemExit(1)  # the host is gone
        if frame[0] != frames.TOOL_RESULT:
            raise frames.ProtocolError("a request came while a tool call was under way")
        header, blob = frames.split(frame[1])
        header = jsontext.loads(header)
        if header.get("call") != call:
            raise frames.ProtocolError("the answer of another call came")
        return header.get("ok") is True, jsontext.loads_any(blob) if len(blob) > 0 else None

    def settle(self):
        """To be called before a result is sent: no answer may be left for what comes after it."""
        self.enabled = False
        if self._pending:
            self._pending = 0
            self._channel.skip()


class Namespace:
    """What code knows as ``tools``: each attribute is a tool of the host."""

    __slots__ = ("_calls",)

    def __init__(self, calls):
        self._calls = calls

    def __getattr__(self, name):
        if name.startswith("_"):  # what libraries look for on any object
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name):
        from . import codemode

        return codemode.tool(self._calls, name)

    def __dir__(self):
        from . import codemode

        return [name for name, _description in codemode.listing(self._calls)] if self._calls.enabled else []

    def __repr__(self):
        from . import codemode

        return codemode.describe(self._calls)


def plain(arguments):
    """Bytes of the JSON of a tool's arguments."""
    text = jsontext.dumps_value(arguments, ARGUMENTS_MAX)
    if text is None:
        raise TypeError(
            "arguments of a tool must be plain JSON values (None, bool, int of 64 bits, finite float, str, list, dict "
            f"with str keys), of at most {ARGUMENTS_MAX >> 20} MiB"
        )
    return text.encode("ascii")
