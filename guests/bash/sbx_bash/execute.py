# SPDX-License-Identifier: Apache-2.0
"""One execution: run the code, and tell how it ended."""

import re
import signal

from sbx_guest import jsontext
from sbx_guest.text import cap

from . import variables

_RESULT_JSON_MAX = 1 << 20
_MESSAGE_MAX = 16 << 10
_ASSIGNS_RESULT = re.compile(rb"(?:^|[\s;&|(){}])result(?:\[[^]]*\])?\+?=")
_PATH = re.compile(rb"/proc/self/fd/[0-9]+: ")
_BEYOND = re.compile(rb"line ([0-9]+): (syntax error.*)")


def _is_empty(source):
    """Comments and blank lines alone are nothing that a group could hold."""
    return all(not line.strip() or line.lstrip().startswith(b"#") for line in source.split(b"\n"))


def _refusal(source):
    """Why the code can't be run, or None."""
    return "bash can't read code with a NUL character in it" if b"\0" in source else None


def _signal_name(status):
    try:
        return f" ({signal.Signals(status - 128).name})" if status > 128 else ""
    except ValueError:
        return ""


def parse_errors(text, lines):
    """What bash said of code that it can't parse, in terms of the user's lines and not of what stands around them."""
    told = []
    for line in _PATH.sub(b"", text).split(b"\n"):
        match = _BEYOND.search(line)
        if match is not None and int(match.group(1)) > lines:
            line = b"bash: line %d: syntax error: unexpected end of the code" % lines
        elif b"__sbx_ran" in line:
            continue
        if line:
            told.append(line)
    return b"\n".join(told)


def _failure(record, said):
    """`error` of an execution that ended with another status than 0."""
    kind, message = "ExitStatus", f"exit code {record.status}{_signal_name(record.status)}"
    if not record.began:
        kind, message = "SyntaxError", said.decode("utf-8", "replace") or message
    elif record.line and "/proc/self/fd/" not in record.command:
        message += f" of line {record.line}, under set -e: {record.command}"
    return {"type": kind, "message": jsontext.clean(cap(message, _MESSAGE_MAX)), "traceback": None}


def _result(session, record, source, answer):
    """`result`, if this code gave that variable a value; the blob with its JSON."""
    before, session.result = session.result, record.result
    if not record.result or (record.result == before and not _ASSIGNS_RESULT.search(source)):
        return b""
    _name, told, value = variables.describe(record.result)
    answer["result"] = told["repr"]
    text = None if value is None else jsontext.dumps_value(value, _RESULT_JSON_MAX)
    if text is None:
        return b""
    answer["result_json"] = True
    return text.encode("ascii")


def _refused(answer, message):
    answer["end"], answer["exit_code"] = "error", 2
    answer["error"] = {"type": "SyntaxError", "message": message, "traceback": None}
    return answer, b""


def execute(session, request, source):
    """Runs an `exec` request; (answer, blob) of its result."""
    answer, blob = {"id": request["id"], "end": "ok", "exit_code": 0}, b""
    source = bytes(source)
    message = _refusal(source)
    if message is not None:
        return _refused(answer, message)
    if not _is_empty(source):
        session.limit_memory(request.get("memory_bytes", 0))
        record = session.interruptible(session.shell.run, source, request.get("tools") is True)
        said = parse_errors(bytes(session.shell.errors), source.count(b"\n") + 1)
        session.write_error(said + b"\n" if said else b"")
        answer["exit_code"] = record.status
        if session.interrupts.fired:
            answer["end"] = "interrupted"
            answer["error"] = {"type": "KeyboardInterrupt", "message": "", "traceback": None}
        elif record.status != 0:
            answer["end"] = "error"
            answer["error"] = _failure(record, said)
        blob = _result(session, record, source, answer)
        session.note_names(record, answer)
    elif session.names is None:
        session.note_names(session.shell.run_own(), answer)
    session.streams.flush()
    session.calls.settle()
    return answer, blob
