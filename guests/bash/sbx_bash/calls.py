# SPDX-License-Identifier: Apache-2.0
"""Tool calls of the shell's code: its functions write a request to a pipe, the driver asks the host and answers.

Any process of the session may call. A pipe with one byte in it lets one through at a time.
"""

import os
from select import POLLIN, poll

from sbx_guest import frames, jsontext
from sbx_guest.tools import ARGUMENTS_MAX, NAME_MAX

from .shell import Page, pipe

_CHUNK = 65536
_REQUEST_MAX = ARGUMENTS_MAX + (1 << 20)
_PARTS_MAX = 4096
NOT_HERE = "it is not part of an execution that may call tools"


class Refused(Exception):
    """What the code asked for is no call, or the call failed; the message is for the code."""


class Calls:
    """The driver's end."""

    def __init__(self, channel, interrupts):
        self._channel = channel
        self._interrupts = interrupts
        self.request_fd, self._request_end = pipe()
        self._answer_end, self._answer_fd = pipe()
        self._token_end, self._token_fd = pipe()
        self._text = Page()
        self._request = bytearray()
        self._count = 0
        self._pending = False
        self._enabled = False

    def shell_fds(self):
        """Descriptors for the shell, in the order of prelude.CALL_FDS."""
        return self._request_end, self._answer_end, self._text.fd, self._token_end, self._token_fd

    def begin(self, enabled):
        """Before an execution: nothing of an earlier one is left, and one call may begin."""
        self._request.clear()
        self._enabled = enabled
        if not enabled:
            return
        for fd in (self.request_fd, self._answer_end, self._token_end):
            while _has_data(fd):
                os.read(fd, _CHUNK)
        os.write(self._token_fd, b"x")

    def settle(self):
        """Before a result is sent: no answer may be left for what comes after it."""
        if self._pending:
            self._pending = False
            self._channel.skip()

    def take(self, answering):
        """Reads what the code wrote, and answers if that is a whole request. Not ``answering``: drops it."""
        data = os.read(self.request_fd, _CHUNK)
        if not answering:
            return
        self._request += data
        if not self._enabled:  # a process that an execution with tools left behind
            self._answer(False, NOT_HERE)
            return
        if len(self._request) > _REQUEST_MAX:
            self._answer(False, "the call is too large")
            return
        if not data.endswith(b"\0"):
            return
        count, _nul, rest = bytes(self._request).partition(b"\0")
        if not count.isdigit() or len(count) > 5 or not 0 < int(count) <= _PARTS_MAX:
            self._answer(False, "too many arguments")
            return
        parts = rest.split(b"\0")[:-1]
        if len(parts) < int(count):
            return
        self._request.clear()
        try:
            told = self._call([part.decode("utf-8", "replace") for part in parts])
        except Refused as error:
            self._answer(False, str(error))
            return
        if told is not None:
            self._answer(True, told)

    def _answer(self, good, text):
        self._request.clear()
        # A variable of bash ends at a NUL character.
        self._text.put(jsontext.clean(text.replace("\0", "")).encode("utf-8"))
        os.write(self._answer_fd, b"0\n" if good else b"1\n")

    def _call(self, parts):
        """The text that the shell's function prints; None when an interrupt came first."""
        kind, arguments = parts[0], parts[1:]
        if kind == "call_tool":
            if not arguments or not 0 < len(arguments[0]) <= NAME_MAX:
                raise Refused("usage: call_tool NAME [ARGUMENT=TEXT | ARGUMENT:=JSON]...")
            return self._ask(arguments[0], _named(arguments[1:]), _tool_text)
        if kind == "llm_query":
            if not 1 <= len(arguments) <= 2:
                raise Refused("usage: llm_query PROMPT [SYSTEM]")
            return self._ask("llm_query", dict(zip(("prompt", "system"), arguments)), _response)
        if kind == "tools":
            return self._ask("__list__", {}, _listing)
        if kind == "FINAL":
            return self._ask("FINAL", {"answer": " ".join(arguments)}, _nothing)
        if kind == "FINAL_VAR" and len(arguments) == 2:
            return self._ask("FINAL_VAR", dict(zip(("variable_name", "value"), arguments)), _nothing)
        raise Refused("there is no such call")

    def _ask(self, name, arguments, read):
        text = jsontext.dumps_value(arguments, ARGUMENTS_MAX)
        if text is None:
            raise Refused(f"the arguments are too large: at most {ARGUMENTS_MAX >> 20} MiB of JSON")
        self._count += 1
        header = jsontext.dumps({"call": self._count, "name": jsontext.clean(name)})
        self._pending = True
        self._channel.send(frames.TOOL_CALL, header, text.encode("ascii"))
        if not self._wait():
            return None
        self._pending = False
        frame = self._channel.receive()
        if frame is None:
            os._exit(0)  # the host is gone
        if frame[0] != frames.TOOL_RESULT:
            raise frames.ProtocolError("a request came while a tool call was under way")
        header, blob = frames.split(frame[1])
        value = jsontext.loads_any(blob) if len(blob) > 0 else None
        if jsontext.loads(header).get("ok") is not True:
            raise Refused(value if isinstance(value, str) else str(value))
        return read(value)

    def _wait(self):
        """False when an interrupt came before the answer."""
        waiter = poll()
        waiter.register(self._channel.read_fd, POLLIN)
        waiter.register(self._interrupts.wakeup_fd, POLLIN)
        while not self._channel.has_more():
            if self._interrupts.fired:
                return False
            ready = [fd for fd, _event in waiter.poll()]
            if self._channel.read_fd in ready:
                return True
            self._interrupts.drain()
        return True


def _has_data(fd):
    """Pipes that the shell shares stay blocking: the flag would be the shell's as well."""
    waiter = poll()
    waiter.register(fd, POLLIN)
    return bool(waiter.poll(0))


def _named(words):
    """{"argument": value} of "argument=text" and "argument:=json"."""
    found = {}
    for word in words:
        name, equals, text = word.partition("=")
        is_json = name.endswith(":")
        name = name[:-1] if is_json else name
        if not equals or not name:
            raise Refused(f"{word[:100]!r}: arguments are ARGUMENT=TEXT or ARGUMENT:=JSON")
        try:
            found[name] = jsontext.loads_any(text) if is_json else text
        except (ValueError, RecursionError):
            raise Refused(f"{word[:100]!r}: what stands after := is not JSON") from None
    return found


def _shown(value):
    if isinstance(value, str):
        return value
    told = jsontext.dumps_readable(value, 2 * ARGUMENTS_MAX)
    return told if told is not None else str(value)


def _tool_text(result):
    content = result.get("content") if isinstance(result, dict) else None
    if not isinstance(content, list):
        return _shown(result)
    texts = [block["text"] for block in content if isinstance(block, dict) and isinstance(block.get("text"), str)]
    if result.get("isError") is True:
        raise Refused("\n".join(texts) or "the tool failed and said nothing")
    if result.get("structuredContent") is not None:
        return _shown(result["structuredContent"])
    return "\n".join(texts) if len(texts) == len(content) else _shown(content)


def _response(result):
    return str(result["response"])


def _listing(result):
    lines = []
    for item in result["tools"]:
        first = (item.get("description") or "").split("\n", 1)[0]
        lines.append(f"{item['name']}: {first}" if first else item["name"])
    return "\n".join(lines)


def _nothing(_result):
    return ""
