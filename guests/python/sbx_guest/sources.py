# SPDX-License-Identifier: Apache-2.0
"""The user's sources: compiled, and kept so that tracebacks and ``inspect`` show their lines."""

import _ast

_AWAIT = _ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_TREE = _ast.PyCF_ONLY_AST | _AWAIT
# Above this size a source is not turned into a tree, which takes 600 times its size in memory.
_TREE_MAX = 64 << 10
_KEPT_MAX = 4 << 20
_KEPT_COUNT = 1000
# Names in the user's namespace while an execution runs.
VALUE = "__sbx_value__"
ASSIGNED = "__sbx_result_assigned__"


class Sources:
    """Sources by file name, oldest first."""

    def __init__(self):
        self.lines = {}
        self._sizes = {}
        self._total = 0
        self._uses = {}
        self._cache = None

    def attach(self, linecache):
        """From now on ``linecache`` knows them too."""
        self._cache = linecache.cache
        for name, lines in self.lines.items():
            self._cache[name] = (self._sizes[name], None, lines, name)

    def name(self, filename):
        """A name that no other source has: "<execution>", "<execution 2>", ... Names of files stay as they are."""
        if not (filename.startswith("<") and filename.endswith(">")):
            return filename
        uses = self._uses.get(filename, 0) + 1
        if len(self._uses) < _KEPT_COUNT or filename in self._uses:
            self._uses[filename] = uses
        return filename if uses == 1 else f"{filename[:-1]} {uses}>"

    def keep(self, filename, text):
        """Keeps the lines; drops the oldest sources when there is too much of them."""
        self.drop(filename)
        size = len(text)
        while self.lines and (self._total + size > _KEPT_MAX or len(self.lines) >= _KEPT_COUNT):
            self.drop(next(iter(self.lines)))
        lines = text.splitlines(True)
        self.lines[filename] = lines
        self._sizes[filename] = size
        self._total += size
        if self._cache is not None:
            self._cache[filename] = (size, None, lines, filename)

    def put_back(self, filename, text):
        """A source that another session had: kept, and its name is not given to one that comes."""
        base, _space, number = filename[:-1].rpartition(" ") if filename.endswith(">") else ("", "", "")
        if number.isdecimal():
            base += ">"
        else:
            base, number = filename, "1"
        self._uses[base] = max(self._uses.get(base, 0), int(number[:9]))
        self.keep(filename, text)

    def drop(self, filename):
        """Forgets a source."""
        if self.lines.pop(filename, None) is not None:
            self._total -= self._sizes.pop(filename)
            if self._cache is not None:
                self._cache.pop(filename, None)


def decode(source, filename):
    """The text of a source, or SyntaxError."""
    try:
        text = str(source, "utf-8")
    except UnicodeDecodeError as error:
        line = bytes(source[: error.start]).count(b"\n") + 1
        message = f"the source is not valid UTF-8: byte {source[error.start]:#04x} at offset {error.start}"
        raise SyntaxError(message, (filename, line, None, None)) from None
    if text.startswith("\ufeff"):
        text = text[1:]
    position = text.find("\0")
    if position >= 0:
        line = text.count("\n", 0, position) + 1
        raise SyntaxError(f"the source has a NUL character at offset {position}", (filename, line, None, None))
    return text


def compile_source(text, filename):
    """Code that leaves the value of a last expression in VALUE, and ASSIGNED behind where it assigns ``result``.

    The second part of the answer is False where ASSIGNED is not kept, because the source is too large.
    """
    if len(text) > _TREE_MAX:
        return _compile_large(text, filename), False
    tree = compile(text, filename, "exec", _TREE, True)
    body = tree.body
    if body and type(body[-1]) is _ast.Expr:
        body[-1] = _assign(VALUE, body[-1].value)
    if "result" in text:
        _mark_body(body)
    return compile(tree, filename, "exec", _AWAIT, True), True


def _compile_large(text, filename):
    """The value of a last expression is kept if it stands on the last line alone."""
    start = text.rstrip().rfind("\n") + 1
    if start > 0 and text[start] not in " \t#)]}":
        try:
            last = compile("\n" * text.count("\n", 0, start) + text[start:], filename, "exec", _TREE, True).body
            if len(last) == 1 and type(last[0]) is _ast.Expr:
                compile(text[:start], filename, "exec", _AWAIT, True)
                text = f"{text[:start]}{VALUE} = ({text[start:].rstrip()}\n)"
        except (SyntaxError, ValueError):
            pass  # the last line is part of something larger
    return compile(text, filename, "exec", _AWAIT, True)


def _assign(name, value):
    where = {
        "lineno": value.lineno,
        "col_offset": value.col_offset,
        "end_lineno": value.end_lineno,
        "end_col_offset": value.end_col_offset,
    }
    return _ast.Assign(targets=[_ast.Name(id=name, ctx=_ast.Store(), **where)], value=value, **where)


_SCOPES = (_ast.FunctionDef, _ast.AsyncFunctionDef, _ast.ClassDef, _ast.Lambda)
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def _stores_result(node):
    """Does this part of a statement bind ``result`` in the module's scope? Blocks inside are not looked at."""
    stack = [node]
    while stack:
        node = stack.pop()
        kind = type(node)
        if kind is _ast.Name:
            if node.id == "result" and type(node.ctx) is _ast.Store:
                return True
            continue
        if kind in (_ast.Import, _ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name.partition(".")[0]) == "result":
                    return True
            continue
        if kind is _ast.comprehension:  # its target lives in a scope of its own
            stack.append(node.iter)
            stack.extend(node.ifs)
            continue
        if kind in _SCOPES:
            if kind is not _ast.Lambda and node.name == "result":
                return True
            continue
        if getattr(node, "name", None) == "result" or getattr(node, "rest", None) == "result":
            return True  # patterns of `match`
        for field in node._fields:
            if field in _BLOCKS and isinstance(node, _ast.stmt):
                continue
            part = getattr(node, field, None)
            if isinstance(part, _ast.AST):
                stack.append(part)
            elif type(part) is list:
                stack.extend(item for item in part if isinstance(item, _ast.AST))
    return False


def _blocks(statement):
    """The lists of statements inside of a compound statement."""
    blocks = []
    if type(statement) in _SCOPES:
        return blocks
    for field in _BLOCKS:
        parts = getattr(statement, field, None)
        if not parts:
            continue
        if isinstance(parts[0], _ast.stmt):
            blocks.append(parts)
            continue
        for part in parts:  # except handlers, cases
            blocks.append(part.body)
            pattern = getattr(part, "pattern", None)
            if pattern is not None and _stores_result(pattern):
                part.body.insert(0, _mark(statement))
    return blocks


def _mark_body(body):
    """Puts `ASSIGNED = True` beside each statement that binds ``result``, where it is reached if that is."""
    position = 0
    while position < len(body):
        statement = body[position]
        position += 1
        blocks = _blocks(statement)
        for block in blocks:
            _mark_body(block)
        if isinstance(statement, _ast.AnnAssign) and statement.value is None:
            continue
        if not _stores_result(statement):
            continue
        if not blocks:
            body.insert(position, _mark(statement))
            position += 1
        elif isinstance(statement, (_ast.If, _ast.While)):
            body.insert(position - 1, _mark(statement))
            position += 1
        else:
            blocks[0].insert(0, _mark(statement))


def _mark(statement):
    where = {
        "lineno": statement.lineno,
        "col_offset": statement.col_offset,
        "end_lineno": statement.end_lineno,
        "end_col_offset": statement.end_col_offset,
    }
    return _assign(ASSIGNED, _ast.Constant(value=True, **where))
