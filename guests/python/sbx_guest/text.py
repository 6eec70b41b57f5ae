# SPDX-License-Identifier: Apache-2.0
"""Text of the user's objects, in bounded size and whatever their methods do."""

REPR_MAX = 64 << 10
_SCALARS = frozenset((int, float, complex, bool, type(None)))
_PIECES_MAX = 20_000
_BRACKETS = {list: ("[", "]"), tuple: ("(", ")"), set: ("{", "}"), frozenset: ("frozenset({", "})"), dict: ("{", "}")}


def cap(text, limit):
    """``text`` as an exact str of about ``limit`` characters, its head and tail kept."""
    size = str.__len__(text)
    if size <= limit:
        return str.__str__(text)
    half = limit // 2
    head = str.__getitem__(text, slice(0, half))
    tail = str.__getitem__(text, slice(size - half, size))
    return f"{head} [... {size - 2 * half} characters omitted ...] {tail}"


def class_name(kind):
    """Name of a class as in a traceback; a metaclass has no say in it."""
    try:
        name = type.__dict__["__qualname__"].__get__(kind)
        module = type.__dict__["__module__"].__get__(kind)
    except Exception:  # noqa: BLE001
        return "<unknown>"
    if type(module) is not str or module in ("__main__", "builtins"):
        return cap(name, 200)
    return f"{cap(module, 200)}.{cap(name, 200)}"


def safe_str(value, limit):
    """str(value), or what went wrong with it."""
    try:
        return cap(str(value), limit)
    except Exception as error:  # noqa: BLE001
        return f"<{class_name(type(value))} object: str() raised {class_name(type(error))}>"


def _cheap(value, budget):
    """Will repr() of a container of exact built-in types be short? The rest of the budget, or -1."""
    budget -= len(value)
    if budget < 0:
        return -1
    if type(value) is dict:
        value = [*value.keys(), *value.values()]
    for item in value:
        kind = type(item)
        if kind in _SCALARS:
            continue
        if kind is str or kind is bytes:
            budget -= len(item) >> 4
        elif kind in _BRACKETS:
            budget = _cheap(item, budget - 1)
        else:
            budget -= 64
        if budget < 0:
            return -1
    return budget


class _Pieces:
    """repr() of large containers, given up once there is enough text."""

    def __init__(self, limit):
        self.out = []
        self.left = limit
        self.open = set()

    def add(self, text):
        self.out.append(text)
        self.left -= len(text)

    def value(self, value):
        kind = type(value)
        if kind not in _BRACKETS or not value:
            self.add(bounded_repr(value, max(self.left, 64)))
        elif id(value) in self.open or len(self.open) > 50:
            start, end = _BRACKETS[kind]
            self.add(f"{start}...{end}")
        else:
            self.open.add(id(value))
            self.container(value, kind)
            self.open.discard(id(value))

    def container(self, value, kind):
        start, end = _BRACKETS[kind]
        self.add(start)
        shown = 0
        for item in value:
            if shown:
                self.add(", ")
            if self.left <= 0 or len(self.out) > _PIECES_MAX:
                self.add(f"... {len(value) - shown} more")
                break
            self.value(item)
            if kind is dict:
                self.add(": ")
                self.value(value[item])
            shown += 1
        self.add(",)" if kind is tuple and len(value) == 1 else end)


def bounded_repr(value, limit=REPR_MAX):
    """repr(value), cut to ``limit``. Large built-in containers and strings are never told in full first."""
    kind = type(value)
    try:
        if kind is str or kind is bytes:
            if len(value) > limit:
                half = limit // 2
                omitted = len(value) - 2 * half
                return cap(f"{value[:half]!r} [... {omitted} omitted ...] {value[-half:]!r}", 2 * limit)
        elif kind in _BRACKETS and _cheap(value, 2000) < 0:
            pieces = _Pieces(limit)
            pieces.value(value)
            return cap("".join(pieces.out), limit + 64)
        return cap(repr(value), limit)
    except Exception as error:  # noqa: BLE001
        message = safe_str(error, 200)
        return f"<{class_name(kind)} object: repr() raised {class_name(type(error))}: {message}>"
