# SPDX-License-Identifier: Apache-2.0
"""Code mode: queries to the model, tools and the answer of a run, as docs/code-mode.md says."""

from . import jsontext
from .text import class_name, safe_str
from .tools import ARGUMENTS_MAX, NAME_MAX, LLMError, ToolError, plain
from .variables import is_variable

_NEAR_MAX = 3
_SHOWN_MAX = 200


def _text(value, what):
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a str, not {class_name(type(value))}")
    return jsontext.clean(value)


def _count(value, what):
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{what} must be an int, not {class_name(type(value))}")
    if not 0 < value <= jsontext.INT_MAX:
        raise ValueError(f"{what} must be positive")
    return int(value)


def _encode(arguments):
    data = jsontext.dumps(arguments)
    if len(data) > ARGUMENTS_MAX:
        raise ValueError(f"the call is too large: {len(data)} bytes of JSON, at most {ARGUMENTS_MAX} are taken")
    return data


# ---- queries ----


def query(calls, prompt, system, max_tokens, context_query):
    """What llm_query does."""
    arguments = {"prompt": _text(prompt, "prompt")}
    if system is not None:
        arguments["system"] = _text(system, "system")
    if max_tokens is not None:
        arguments["max_tokens"] = _count(max_tokens, "max_tokens")
    if context_query is not None:
        arguments["context_query"] = _text(context_query, "context_query")
    calls.check(LLMError)
    return calls.request("llm_query", _encode(arguments), LLMError)["response"]


def _item(item, position, system):
    what = f"prompts[{position}]"
    if isinstance(item, dict):
        unknown = [key for key in item if key not in ("query", "system")]
        if unknown or "query" not in item:
            raise TypeError(f"{what} must be a str, or a dict with 'query' and perhaps 'system'")
        own = item.get("system")
        system = system if own is None else own
        item = item["query"]
        what += "['query']"
    told = {"query": _text(item, what)}
    if system is not None:
        told["system"] = _text(system, "system")
    return told


def batch(calls, prompts, system, max_tokens, max_parallel):
    """What llm_batch does."""
    if isinstance(prompts, (str, dict)):
        raise TypeError("prompts must be a list; llm_query asks one")
    arguments = {"queries": [_item(item, position, system) for position, item in enumerate(prompts)]}
    if max_tokens is not None:
        arguments["max_tokens"] = _count(max_tokens, "max_tokens")
    if max_parallel is not None:
        arguments["max_parallel"] = _count(max_parallel, "max_parallel")
    calls.check(LLMError)
    if not arguments["queries"]:
        return []
    told = calls.request("llm_batch", _encode(arguments), LLMError)["results"]
    results = [item.get("response") for item in told]
    errors = [None if item.get("response") is not None else item.get("error") or "it failed" for item in told]
    failed = [text for text in errors if text is not None]
    if failed:
        raise LLMError(f"{len(failed)} of {len(results)} queries failed; the first: {failed[0]}", results, errors)
    return results


# ---- tools ----


def tool(calls, name):
    """A function that calls the tool and returns its result as a Python value."""
    if not isinstance(name, str) or not 0 < len(name) <= NAME_MAX:
        raise TypeError(f"the name of a tool is a str of 1 to {NAME_MAX} characters")

    def call(*positional, **arguments):
        if positional:
            raise TypeError(f"{name} takes its arguments by name: {name}(argument=value)")
        return _value(calls.request(name, plain(arguments)))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Calls the tool {name} of the host. Arguments go by name."
    call.__module__ = "tools"
    return call


def _texts(content):
    return [block["text"] for block in content if isinstance(block, dict) and isinstance(block.get("text"), str)]


def _value(result):
    content = result.get("content") if isinstance(result, dict) else None
    if not isinstance(content, list):
        return result
    if result.get("isError") is True:
        raise ToolError("\n".join(_texts(content)) or "the tool failed and said nothing")
    if result.get("structuredContent") is not None:
        return result["structuredContent"]
    if not content:
        return None
    texts = _texts(content)
    if len(content) > 1 or len(texts) != 1 or content[0].get("type") != "text":
        return content
    try:
        return jsontext.loads_any(texts[0].strip())
    except (ValueError, RecursionError):
        return texts[0]


def listing(calls):
    """[(name, description)] of the tools that this execution may call."""
    told = calls.request("__list__", b"{}")["tools"]
    return [(item["name"], item.get("description") or "") for item in told]


def describe(calls):
    """repr(tools). It may be asked for anywhere, so it never fails."""
    try:
        found = listing(calls)
    except ToolError as error:
        return f"<tools: {error}>"
    lines = ["<tools of the host; call them as tools.NAME(argument=value)>"]
    for name, description in found:
        first = description.split("\n", 1)[0]
        lines.append(f"  {name}: {first[:_SHOWN_MAX]}{'...' if len(first) > _SHOWN_MAX else ''}")
    return "\n".join(lines)


# ---- the answer ----


def _answer(value):
    if isinstance(value, str):
        return jsontext.clean(value)
    told = jsontext.dumps_readable(value, ARGUMENTS_MAX)
    return told if told is not None else jsontext.clean(safe_str(value, ARGUMENTS_MAX // 2))


def final(calls, answer):
    """What FINAL does."""
    calls.check()
    calls.request("FINAL", _encode({"answer": _answer(answer)}))


def _is_variable(namespace, name):
    return name in namespace and is_variable(name, namespace[name])


def final_var(calls, name):
    """What FINAL_VAR does."""
    if not isinstance(name, str):
        raise TypeError(
            f"FINAL_VAR takes the name of a variable, as a str, not {class_name(type(name))}; FINAL takes a value"
        )
    calls.check()
    if not _is_variable(calls.namespace, name):
        raise NameError(_unknown(calls.namespace, name))
    told = {"variable_name": jsontext.clean(name), "value": _answer(calls.namespace[name])}
    calls.request("FINAL_VAR", _encode(told))


def _unknown(namespace, name):
    import difflib

    known = [known for known in list(namespace) if _is_variable(namespace, known)]
    near = difflib.get_close_matches(name[:_SHOWN_MAX], known, _NEAR_MAX) or known[:_NEAR_MAX]
    hint = "; there is " + ", ".join(repr(known) for known in near) if near else "; there are none"
    return f"{name[:_SHOWN_MAX]!r} is not a variable of this session{hint}. FINAL takes a value itself."
