# SPDX-License-Identifier: Apache-2.0
"""What a session's variables and files ought to be: programs made at random, and a model that runs the same ones.

A state is the list of the programs that led to it, so going back to it is going back to a shorter list. Model.look runs
such a list anew in this interpreter and describes what came of it; LOOK lets a session describe itself in the same words."""
import contextlib
import io
import json
import os
import random
import shutil
import tempfile

MARK = "STATE "

# Defines look(): what the variables are and what the working directory holds, as something that JSON can hold. It uses
# nothing and changes nothing; values that several names share are told as such.
LOOKING = r'''
def look(variables):
    import hashlib, os, types
    seen, words = {}, {}
    def short(text):
        return text if len(text) <= 120 else "%d:%s" % (len(text), hashlib.sha256(text.encode()).hexdigest())
    def told(value, depth=0):
        kind = type(value)
        if depth > 6:
            return "deep"
        if kind in (bytes, bytearray):
            return "%s %d %s" % (kind.__name__, len(value), hashlib.sha256(value).hexdigest())
        if kind in (list, tuple):
            return "%s %s" % (kind.__name__, [told(item, depth + 1) for item in value])
        if kind in (set, frozenset):
            return "%s %s" % (kind.__name__, sorted(told(item, depth + 1) for item in value))
        if kind is dict:
            return "dict %s" % [(told(key, depth + 1), told(item, depth + 1)) for key, item in value.items()]
        if kind is types.ModuleType:
            return "module " + value.__name__
        if kind is types.FunctionType:
            cells = [told(cell.cell_contents, depth + 1) for cell in value.__closure__ or ()]
            return "function %s %r %s" % (value.__qualname__, value.__defaults__, cells)
        if kind is types.GeneratorType:
            inside = value.gi_frame.f_locals if value.gi_frame else None
            return "generator %s %s" % (value.__qualname__, inside)
        if isinstance(value, type):
            members = [name for name in vars(value) if not name.startswith("__")]
            return "class %s %s" % (value.__qualname__, sorted(members))
        if kind.__module__ == "__main__":
            return "%s %s" % (kind.__qualname__, told(vars(value), depth + 1))
        return "%s %r" % (kind.__name__, value)
    for name in sorted(variables):
        if name[0] != "_" and name != "look":
            words[name] = short(told(variables[name]))
            if type(variables[name]) in (list, dict, bytearray, set) or type(variables[name]).__module__ == "__main__":
                seen.setdefault(id(variables[name]), []).append(name)
    shared = [names for names in seen.values() if len(names) > 1]
    files = {}
    for path in sorted(os.listdir(".")):
        with open(path, "rb") as file:
            files[path] = hashlib.sha256(file.read()).hexdigest()[:16]
    return {"variables": words, "shared": sorted(shared), "files": files}
'''
# Called on values that only a call can tell apart: those of functions and methods.
CALLING = r'''
def calls(variables):
    import types
    told = {}
    for name in sorted(variables):
        value = variables[name]
        if type(value) is types.FunctionType and name.startswith("pure"):
            told[name] = repr(value(7))
        elif type(value).__module__ == "__main__" and hasattr(value, "total"):
            told[name] = repr(value.total())
    return told
'''


def looking():
    """The code that prints a session's own account."""
    return ("def _account():\n    import json\n    room = {}\n    exec(%r, room)\n"
            "    told = room['look'](globals())\n    told['calls'] = room['calls'](globals())\n"
            "    print(%r + json.dumps(told, sort_keys=True))\n_account()\ndel _account\n"
            % (LOOKING + CALLING, MARK))


def told_in(text):
    """The account in what an execution printed; None: there is none."""
    for line in text.splitlines():
        if line.startswith(MARK):
            return json.loads(line[len(MARK):])
    return None


# ---- programs ----

def _value(chance, depth=0):
    """The source of a value."""
    kind = chance.randrange(9 if depth < 2 else 5)
    if kind == 0:
        return repr(chance.choice((0, -1, 1 << 70, chance.randrange(1000000))))
    if kind == 1:
        return repr(chance.random())
    if kind == 2:
        return repr("".join(chance.choice("ab\u00e9\u4e2d\U0001f600'\"\\\n ") for _ in range(chance.randrange(12))))
    if kind == 3:
        return "bytes(range(%d)) * %d" % (chance.randrange(1, 256), chance.randrange(1, 40))
    if kind == 4:
        return chance.choice(("None", "True", "3 + 4j", "...", "range(2, 9)"))
    parts = [_value(chance, depth + 1) for _ in range(chance.randrange(4))]
    if kind == 5:
        return "[%s]" % ", ".join(parts)
    if kind == 6:
        return "(%s)" % "".join(part + ", " for part in parts)
    if kind == 7:
        return "{%s}" % ", ".join("%r: %s" % ("k%d" % index, part) for index, part in enumerate(parts))
    return "{%s}" % ", ".join(map(str, chance.sample(range(100), 3)))


class Programs:
    """Pieces of code that go together in any order; the same seed makes the same ones. `exact`: also those whose
    values only a byte-exact state holds."""

    def __init__(self, seed, exact=False):
        self.chance = random.Random(seed)
        self.number = 0
        self.kinds = [self.assign, self.assign, self.alias, self.append, self.function, self.closure, self.advance,
                      self.class_, self.instance, self.change, self.buffer, self.poke, self.file, self.more_file,
                      self.no_file, self.delete, self.module, self.failing, self.recursive]
        if exact:
            self.kinds += [self.generator, self.step, self.step]

    def next(self):
        self.number += 1
        return self.chance.choice(self.kinds)()

    def _name(self, letter, count=4):
        return "%s%d" % (letter, self.chance.randrange(count))

    def assign(self):
        return "%s = %s\n" % (self._name("v"), _value(self.chance))

    def alias(self):
        return "%s = globals().get(%r, 'nothing')\n" % (self._name("v"), self._name("v"))

    def append(self):
        return ("_target = globals().get(%r)\nif type(_target) is list:\n    _target.append(%s)\ndel _target\n"
                % (self._name("v"), _value(self.chance, 1)))

    def function(self):
        return ("def pure%d(x, more=%d):\n    # piece %d\n    return [x * more, (lambda y: y + %d)(x)]\n"
                % (self.chance.randrange(3), self.chance.randrange(100), self.number, self.chance.randrange(100)))

    def closure(self):
        return ("def _make(count):\n    def following(step):\n        nonlocal count\n        count += step\n"
                "        return count\n    return following\n%s = _make(%d)\n"
                % (self._name("c"), self.chance.randrange(1000)))

    def advance(self):
        return "if %r in globals():\n    print(%s(%d))\n" % ((name := self._name("c")), name, self.chance.randrange(9))

    def class_(self):
        return ("class Account:\n    rate = %d\n    def __init__(self, sum):\n        self.sum, self.past = sum, []\n"
                "    def add(self, amount):\n        self.past.append(amount)\n        self.sum += amount\n"
                "    def total(self):\n        return self.sum * self.rate\n" % self.chance.randrange(2, 9))

    def instance(self):
        return "if 'Account' in globals():\n    %s = Account(%d)\n" % (self._name("a"), self.chance.randrange(100))

    def change(self):
        name = self._name("a")
        return "if %r in globals():\n    %s.add(%d)\n" % (name, name, self.chance.randrange(100))

    def buffer(self):
        return "%s = bytearray(bytes(range(256)) * %d)\n" % (self._name("b", 2), self.chance.randrange(1, 2000))

    def poke(self):
        name = self._name("b", 2)
        return "if %r in globals():\n    %s[%d] ^= 255\n" % (name, name, self.chance.randrange(256))

    def file(self):
        return ("with open(%r, 'w') as _file:\n    _file.write(%r * %d)\ndel _file\n"
                % (self._name("f", 3), "line %d\n" % self.number, self.chance.randrange(1, 3000)))

    def more_file(self):
        return "with open(%r, 'a') as _file:\n    _file.write('more %d')\ndel _file\n" % (self._name("f", 3), self.number)

    def no_file(self):
        name = self._name("f", 3)
        return "import os\nif os.path.exists(%r):\n    os.unlink(%r)\n" % (name, name)

    def delete(self):
        return "globals().pop(%r, None)\n" % self._name("v")

    def module(self):
        return "import %s\n" % self.chance.choice(("json", "math", "string", "fractions", "decimal"))

    def failing(self):
        return "%s = %d\nraise ValueError('meant')\n" % (self._name("v"), self.chance.randrange(1000))

    def recursive(self):
        name = self._name("r", 2)
        return "%s = [%d]\n%s.append({'self': %s})\n" % (name, self.chance.randrange(1000), name, name)

    def generator(self):
        return ("def _numbers(start):\n    at = start\n    while True:\n        yield at\n        at += 1\n"
                "%s = _numbers(%d)\nnext(%s)\n" % ((name := self._name("g", 2)), self.chance.randrange(1000), name))

    def step(self):
        name = self._name("g", 2)
        return "if %r in globals():\n    print(next(%s))\n" % (name, name)


# ---- the model ----

class Model:
    """Runs lists of programs in this process, in a directory of their own. A context manager."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="sbx-model-")
        self.known = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.directory, ignore_errors=True)

    def look(self, programs):
        """What a session says of itself after these programs."""
        key = tuple(programs)
        if key not in self.known:
            self.known[key] = self._run(key)
        return self.known[key]

    def _run(self, programs):
        room = tempfile.mkdtemp(dir=self.directory)
        before = os.getcwd()
        variables = {"__name__": "__main__", "__builtins__": __builtins__}
        output = io.StringIO()
        try:
            os.chdir(room)
            with contextlib.redirect_stdout(output):
                for program in programs:
                    with contextlib.suppress(ValueError):
                        exec(compile(program, "<program>", "exec"), variables)
                exec(looking(), variables)
        finally:
            os.chdir(before)
            shutil.rmtree(room)
        return told_in(output.getvalue())


def difference(told, wanted):
    """What is not as it ought to be, for people; "": nothing."""
    lines = []
    for kind in sorted(set(told) | set(wanted)):
        have, want = told.get(kind), wanted.get(kind)
        if have == want:
            continue
        if isinstance(have, dict) and isinstance(want, dict):
            lines += ["%s %s: %s, and not %s" % (kind, name, have.get(name), want.get(name))
                      for name in sorted(set(have) | set(want)) if have.get(name) != want.get(name)]
        else:
            lines.append("%s: %s, and not %s" % (kind, have, want))
    return "\n".join(lines)
