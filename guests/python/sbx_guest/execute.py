# SPDX-License-Identifier: Apache-2.0
"""One execution: compile, run, and tell how it ended."""

import sys
from errno import EAGAIN
from gc import collect

from . import jsontext
from .sources import ASSIGNED, VALUE, compile_source, decode
from .text import REPR_MAX, bounded_repr
from .variables import names

_RESULT_JSON_MAX = 1 << 20
_COROUTINE = 0x80  # CO_COROUTINE: the code awaits at its top level
_MISSING = object()


def _take(session, filename, source):
    """(text, None) of the source, which is kept for tracebacks, or (None, exception). Not to be interrupted half-way."""
    try:
        text = decode(source, filename)
        session.sources.keep(filename, text)
    except (SyntaxError, MemoryError) as error:
        return None, error
    return text, None


def _run(session, filename, text):
    """Compiles and runs. Everything in here may be interrupted."""
    code, marked = compile_source(text, filename)
    namespace = session.namespace
    namespace.pop(VALUE, None)
    namespace.pop(ASSIGNED, None)
    before = namespace.get("result", _MISSING)
    if code.co_flags & _COROUTINE:
        if session.loop is None:
            from .awaiting import Loop

            session.loop = Loop()
        session.loop.run(eval(code, namespace))  # noqa: S307
    else:
        exec(code, namespace)  # noqa: S102
    assigned = marked and namespace.pop(ASSIGNED, None) is not None
    return assigned or namespace.get("result", _MISSING) is not before


def _present(session, assigned, answer):
    """Value, result and figures of code that ran to its end; this runs methods of the user's objects."""
    namespace = session.namespace
    blob = b""
    value = namespace.pop(VALUE, None)
    if value is not None:
        session.display.rich(value)
        answer["value"] = jsontext.clean(bounded_repr(value, REPR_MAX))
    if assigned and "result" in namespace:
        result = namespace["result"]
        answer["result"] = answer["value"] if result is value else jsontext.clean(bounded_repr(result, REPR_MAX))
        told = jsontext.dumps_value(result, _RESULT_JSON_MAX)
        if told is not None:
            answer["result_json"] = True
            blob = told.encode("ascii")
    return blob


def _show_figures(session):
    if "matplotlib.pyplot" in sys.modules:
        session.display.show_figures()


def _flush_replaced(streams):
    for stream in streams:
        stream.flush()


def _exit_code(error):
    """What sys.exit() was called with, when that means success."""
    return isinstance(error, SystemExit) and (error.code is None or (type(error.code) is int and error.code == 0))


def _end(session, error):
    if error is None or _exit_code(error):
        return "ok"
    if isinstance(error, KeyboardInterrupt) and session.interrupts.fired:
        return "interrupted"
    return "memory" if isinstance(error, MemoryError) else "error"


def _describe(session, error):
    """The error for the answer. Another error while it is told leaves the plain facts."""
    from . import tracebacks

    told, failed = session.guard(tracebacks.describe, error, session.namespace, session.sources.lines)
    if failed is not None:
        told = tracebacks.describe_plainly(error)
    if isinstance(error, SystemExit) and type(error.code) is int:
        told["message"] = f"the code ended with exit code {error.code}"
    hint, _error = session.guard(session.hint, error)
    if hint is not None:
        told["message"] += f": {hint}"
        told["traceback"] = (told["traceback"] or "") + hint + "\n"
    return {name: text if text is None else jsontext.clean(text) for name, text in told.items()}


def _failed(session, error, end, answer):
    """Fills in what is known of a failure, and cleans up after it."""
    if end == "memory":
        session.memory.lift()  # room to tell of it; the next execution sets its limit again
    session.namespace.pop(VALUE, None)
    session.namespace.pop(ASSIGNED, None)
    if (session.is_init or session.has_init) and (end == "interrupted" or _is_fork_failure(session, error)):
        from .processes import kill_all, kill_others

        kill_all() if session.is_init else kill_others()
    answer["error"] = _describe(session, error)


def _is_fork_failure(session, error):
    """A fork bomb ends with this in its first process, while its offspring go on."""
    return session.forked and isinstance(error, BlockingIOError) and error.errno == EAGAIN


def _figures(session, end):
    if "matplotlib.pyplot" not in sys.modules:
        return None
    if end in ("ok", "error"):
        return session.guard(_show_figures, session)[1]
    from .display import close_figures

    session.guard(close_figures)
    return None


def execute(session, request, source):
    """Runs an `exec` request; (answer, blob) of its result."""
    session.begin()
    session.memory.apply(request.get("memory_bytes", 0))
    session.tools.enabled = request.get("tools") is True
    answer = {"id": request["id"]}
    blob = b""
    filename = session.sources.name(request.get("filename") or "<execution>")
    text, error = _take(session, filename, source)
    if error is None:
        assigned, error = session.guard(_run, session, filename, text)
    source = text = None
    if error is None:
        blob, error = session.guard(_present, session, assigned, answer)
        blob = blob or b""
    end = _end(session, error)
    if end != "ok":
        _failed(session, error, end, answer)
    failed = _figures(session, end)
    if failed is not None and end == "ok":
        end = _end(session, failed)
        _failed(session, failed, end, answer)
    error = failed = None
    if end == "memory":  # what it held may be in a cycle, and there is no memory left to wait for the collector
        session.guard(collect)
    replaced = session.streams.replaced()
    if replaced:
        session.guard(_flush_replaced, replaced)
    session.streams.flush()
    session.tools.settle()
    answer["end"] = end
    known = names(session.namespace)
    if known != session.names:
        answer["names"] = session.names = known
    return answer, blob
