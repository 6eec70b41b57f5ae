# SPDX-License-Identifier: Apache-2.0
"""What to tell of an exception: type, message, and a traceback of the user's frames, in bounded time and size.

The `traceback` module is not used: it walks and keeps everything, however many frames, notes or chained exceptions
there are, and runs methods of the exception without a limit on what they return.
"""

import builtins
import sys
from collections import deque
from os.path import dirname

from .text import cap, class_name, safe_str

MESSAGE_MAX = 16 << 10
TRACEBACK_MAX = 64 << 10
_HEAD_FRAMES = 20
_TAIL_FRAMES = 30
_CHAIN_HEAD = 5  # nearest to the one that ended the code
_CHAIN_TAIL = 3  # the first ones
_CHAIN_WALK = 10_000
_GROUP_WIDTH = 10
_GROUP_DEPTH = 4
_SECTIONS_MAX = 40
_NOTES_MAX = 10
_LINE_MAX = 400
_LASTI_MAX = 20_000
_OWN = tuple(f"{dirname(dirname(__file__))}/{name}/" for name in ("sbx_guest", "sbx_wasm"))

_CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n\n"
_Group = getattr(builtins, "BaseExceptionGroup", None)  # 3.11


def message_of(error):
    """The text after "Type: "."""
    if isinstance(error, SyntaxError):
        return safe_str(SyntaxError.msg.__get__(error), MESSAGE_MAX)
    return safe_str(error, MESSAGE_MAX)


def describe(error, namespace, lines):
    """{"type", "message", "traceback"} of an exception; ``lines`` maps names of the user's sources to their lines."""
    return {
        "type": class_name(type(error)),
        "message": message_of(error),
        "traceback": cap("".join(_Report(namespace, lines).exception(error)), TRACEBACK_MAX),
    }


class _Report:
    def __init__(self, namespace, lines):
        self._namespace = namespace
        self._lines = lines
        self._sections = 0

    def exception(self, error, depth=0):
        """The parts of an exception's text, those that it came from first."""
        out = []
        chain, omitted = _chain(error)
        for position in range(len(chain) - 1, -1, -1):
            item, link = chain[position]
            self._sections += 1
            if self._sections > _SECTIONS_MAX:
                out.append("[... more exceptions omitted ...]\n")
                break
            if position == len(chain) - 1 and omitted == -1:
                out.append("[... the first exceptions are too far back ...]\n\n")
            self._one(item, out, depth)
            if link is not None:
                if omitted > 0 and position == _CHAIN_HEAD:
                    out.append(f"\n[... {omitted} exceptions in between omitted ...]\n")
                out.append(link)
        return out

    def _one(self, error, out, depth):
        frames, omitted = self._frames(BaseException.__traceback__.__get__(error))
        if frames:
            out.append("Traceback (most recent call last):\n")
            self._stack(frames, omitted, out)
        name = class_name(type(error))
        if isinstance(error, SyntaxError):
            self._syntax(error, out)
        message = message_of(error)
        out.append(f"{name}: {message}\n" if message else f"{name}\n")
        _notes(error, out)
        if _Group is not None and isinstance(error, _Group):
            self._group(error, out, depth)

    def _group(self, error, out, depth):
        parts = _Group.exceptions.__get__(error)
        if depth >= _GROUP_DEPTH:
            out.append(f"  [... {len(parts)} sub-exceptions omitted ...]\n")
            return
        for number, part in enumerate(parts[:_GROUP_WIDTH], 1):
            if self._sections > _SECTIONS_MAX:
                break
            out.append(f"  +---------------- {number} ----------------\n")
            text = "".join(self.exception(part, depth + 1))
            out.extend(f"  | {line}" for line in cap(text, TRACEBACK_MAX // 2).splitlines(True))
        if len(parts) > _GROUP_WIDTH:
            out.append(f"  [... {len(parts) - _GROUP_WIDTH} sub-exceptions omitted ...]\n")

    def _frames(self, trace):
        """[(code, line, instruction)] of the user's frames, and how many in the middle are left out."""
        first = trace
        while first is not None and first.tb_frame.f_globals is not self._namespace:
            first = first.tb_next
        trace = trace if first is None else first
        head, tail, count = [], deque(maxlen=_TAIL_FRAMES), 0
        while trace is not None:
            code = trace.tb_frame.f_code
            if not code.co_filename.startswith(_OWN):
                entry = (code, trace.tb_lineno, trace.tb_lasti)
                count += 1
                if len(head) < _HEAD_FRAMES:
                    head.append(entry)
                else:
                    tail.append(entry)
            trace = trace.tb_next
        return head + list(tail), count - len(head) - len(tail)

    def _stack(self, frames, omitted, out):
        previous, repeated = None, 0
        for position, entry in enumerate(frames):
            if omitted and position == _HEAD_FRAMES:
                repeated = _repeated(repeated, out)
                previous = None
                out.append(f"  [... {omitted} frames omitted ...]\n")
            same = previous is not None and previous[0] is entry[0] and previous[1] == entry[1]
            repeated = repeated + 1 if same else _repeated(repeated, out)
            previous = entry
            if repeated < 3:
                self._frame(entry, out)
        _repeated(repeated, out)

    def _frame(self, entry, out):
        code, number, instruction = entry
        out.append(f'  File "{cap(code.co_filename, _LINE_MAX)}", line {number}, in {cap(code.co_name, _LINE_MAX)}\n')
        line = self._line(code.co_filename, number)
        text = line.strip()
        if not text:
            return
        out.append(f"    {cap(text, _LINE_MAX)}\n")
        if hasattr(code, "co_positions") and len(text) <= _LINE_MAX and instruction < _LASTI_MAX:
            _carets(code, instruction, number, line, out)

    def _line(self, filename, number):
        lines = self._lines.get(filename)
        if lines is not None:
            return lines[number - 1] if number is not None and 0 < number <= len(lines) else ""
        try:
            import linecache

            return linecache.getline(filename, number)
        except Exception:  # noqa: BLE001 - a line less, that is all
            return ""

    def _syntax(self, error, out):
        filename = SyntaxError.filename.__get__(error)
        number = SyntaxError.lineno.__get__(error)
        if type(filename) is not str or type(number) is not int:
            return
        out.append(f'  File "{cap(filename, _LINE_MAX)}", line {number}\n')
        text = SyntaxError.text.__get__(error)
        if type(text) is not str:
            text = self._line(filename, number)
        stripped = text.strip()
        if not stripped:
            return
        out.append(f"    {cap(stripped, _LINE_MAX)}\n")
        offset = SyntaxError.offset.__get__(error)
        if type(offset) is int and len(stripped) <= _LINE_MAX:
            column = min(max(offset - 1 - (len(text) - len(text.lstrip())), 0), len(stripped))
            out.append(f"    {' ' * column}^\n")


def _repeated(count, out):
    """Says how often the last frame came again; a new count."""
    if count > 2:
        out.append(f"  [Previous line repeated {count - 2} more times]\n")
    return 0


def _carets(code, instruction, number, line, out):
    """Marks the part of the line that was running, where CPython knows it (3.11) and it is not all of the line."""
    from itertools import islice

    where = next(islice(code.co_positions(), instruction // 2, None), None)
    if where is None or None in where or where[0] != number or where[1] != number:
        return
    raw = line.encode("utf-8", "surrogatepass")
    start = len(raw[: where[2]].decode("utf-8", "replace"))
    end = len(raw[: where[3]].decode("utf-8", "replace"))
    indent = len(line) - len(line.lstrip())
    if end - start < len(line.strip()) and 0 <= indent <= start < end:
        out.append(f"    {' ' * (start - indent)}{'^' * (end - start)}\n")


def _chain(error):
    """[(exception, text that links it to the next one)], last raised first, and how many are left out (-1: unknown)."""
    seen = set()
    head, tail, count, link = [], deque(maxlen=_CHAIN_TAIL), 0, None
    while error is not None and id(error) not in seen:
        if count == _CHAIN_WALK:
            return head, -1
        seen.add(id(error))
        if len(head) < _CHAIN_HEAD:
            head.append((error, link))
        else:
            tail.append((error, link))
        count += 1
        cause = BaseException.__cause__.__get__(error)
        if cause is not None:
            error, link = cause, _CAUSE
        elif BaseException.__suppress_context__.__get__(error):
            error = None
        else:
            error, link = BaseException.__context__.__get__(error), _CONTEXT
    return head + list(tail), count - len(head) - len(tail)


def _notes(error, out):
    """What was added with add_note() (3.11); any object may stand there."""
    try:
        notes = getattr(error, "__notes__", None)
    except Exception:  # noqa: BLE001
        return
    if type(notes) not in (list, tuple):
        return
    for note in notes[:_NOTES_MAX]:
        out.append(safe_str(note, MESSAGE_MAX // 4) + "\n")
    if len(notes) > _NOTES_MAX:
        out.append(f"[... {len(notes) - _NOTES_MAX} notes omitted ...]\n")


def describe_plainly(error):
    """As describe(), without running any of the user's code: for when that was interrupted or ran out of memory."""
    return {"type": class_name(type(error)), "message": "", "traceback": None}


def print_error(error, namespace, lines):
    """Writes a traceback to standard error, as the interpreter does."""
    sys.stderr.write(describe(error, namespace, lines)["traceback"])
