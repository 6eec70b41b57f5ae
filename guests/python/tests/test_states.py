# SPDX-License-Identifier: Apache-2.0
"""Portable states of Python: what they hold, what they leave out and say so, and what they cost."""

import unittest

import portable
from states_case import StatesCase

VALUES = """
import abc, array, collections, contextlib, dataclasses, datetime, decimal, enum, functools, io, itertools, logging
import operator, pathlib, queue, re, threading, types, typing, uuid, weakref
class Color(enum.Enum):
    RED = 1
    GREEN = "g"
    def hi(self): return "hi " + self.name
class Number(enum.IntEnum):
    A = 1
    B = 2
class Flag(enum.Flag):
    X = enum.auto()
    Y = enum.auto()
red, number, flags = Color.RED, Number.B, Flag.X | Flag.Y
@dataclasses.dataclass(order=True)
class Plain:
    x: int
    y: list = dataclasses.field(default_factory=list)
    z: int = dataclasses.field(default=3, metadata={"a": 1})
@dataclasses.dataclass(frozen=True)
class Frozen:
    a: int = 1
plain, frozen = Plain(1), Frozen(4)
class Named(typing.NamedTuple):
    a: int
    b: str = "q"
named = Named(1)
Pair = collections.namedtuple("Pair", "u v")
pair = Pair(1, 2)
T = typing.TypeVar("T")
Id = typing.NewType("Id", int)
class Box(typing.Generic[T]):
    def __init__(self, v): self.v = v
box, IntBox = Box[int](5), Box[int]
class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...
class Square(Shape):
    def area(self): return 4
square = Square()
Shape.register(int)
@functools.lru_cache(maxsize=10)
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
fib(20)
class Properties:
    @functools.cached_property
    def cached(self): return 42
    @property
    def plain(self): return 1
    @classmethod
    def made(cls): return cls.__name__
    @staticmethod
    def free(): return "s"
properties = Properties()
properties.cached
match, pattern = re.search("b+", "aabbb"), re.compile("x")
lock, event, jobs, condition = threading.Lock(), threading.Event(), queue.Queue(), threading.Condition()
jobs.put(1)
logger = logging.getLogger("x.y")
class Registry:
    known = {}
    def __init_subclass__(cls, *, key, **rest):
        Registry.known[key] = cls
        super().__init_subclass__(**rest)
class Registered(Registry, key="one"): pass
class Meta(type):
    made = []
    def __new__(meta, name, bases, attributes):
        Meta.made.append(name)
        return super().__new__(meta, name, bases, attributes)
    def __call__(cls, *arguments):
        made = super().__call__(*arguments)
        made.tag = "meta"
        return made
class WithMeta(metaclass=Meta): pass
with_meta = WithMeta()
cycle = [1]
cycle.append(cycle)
tree = ([],)
tree[0].append(tree)
class Node: pass
first, second = Node(), Node()
first.other, second.other = second, first
first.me = lambda: first
def outer():
    def factorial(k): return 1 if k == 0 else k * factorial(k - 1)
    return factorial
factorial = outer()
partial = functools.partial(factorial, 5)
numbers, changing, fixed = array.array("d", range(100000)), bytearray(b"x" * 300000), b"y" * 400000
view = memoryview(fixed)
weak, weak_values = weakref.ref(first), weakref.WeakValueDictionary()
weak_values["a"] = first
text = io.StringIO("abc")
text.read(1)
when, price = datetime.datetime(2020, 1, 1), decimal.Decimal("1.5")
keys = {1: 2}.keys()
iterator, count = iter([1, 2, 3]), itertools.count(5)
next(iterator)
def decorate(function):
    @functools.wraps(function)
    def wrapped(*arguments): return ("w", function(*arguments))
    return wrapped
@decorate
def decorated(x):
    "documented"
    return x
module = types.ModuleType("made")
module.k, module.self = [1], module
try: 1 / 0
except ZeroDivisionError as error: caught = error
class Odd(Exception):
    def __init__(self, a):
        super().__init__(a)
        self.a = a
odd = Odd(3)
known = [context, display, print, globals, tools, llm_query]
space = globals()
class Private:
    def __mine(self): return 1
    def ask(self): return self.__mine()
ask = Private().ask
def annotated(x: "int") -> str: ...
annotated.attribute = 5
several = functools.singledispatch(annotated)
kinds = [..., NotImplemented, type(None), list[int], typing.Optional[int], range(5), slice(1, 2), 1j, 10 ** 1000]
class Slots:
    __slots__ = ("a", "__p", "__dict__")
    def __init__(self): self.a, self.__p, self.d = 1, 2, 3
    def p(self): return self.__p
slots = Slots()
class Descriptor:
    def __set_name__(self, owner, name): self.name = name
    def __get__(self, instance, owner=None): return "got " + self.name
class Described: x = Descriptor()
described = Described()
default = collections.defaultdict(lambda: 7)
chain, items = collections.ChainMap({1: 2}), collections.deque([1], maxlen=3)
"""
TRUE = """
red is Color.RED is Color(1) and red.hi() == 'hi RED' and Color['GREEN'].value == 'g'
number is Number.B is Number(2) and number == 2 and flags == Flag.X | Flag.Y and list(Color) == [Color.RED, Color.GREEN]
plain == Plain(1) and plain < Plain(2) and repr(plain) == 'Plain(x=1, y=[], z=3)' and Plain(5).y == []
dataclasses.asdict(plain) == {'x': 1, 'y': [], 'z': 3} and dataclasses.replace(plain, x=9).x == 9
frozen == Frozen(4) and hash(frozen) == hash(Frozen(4))
named == (1, 'q') and Named(3).a == 3 and pair._replace(u=5).u == 5
isinstance(box, Box) and typing.get_args(IntBox) == (int,) and Box.__parameters__ == (T,) and Id(4) == 4
isinstance(square, Shape) and isinstance(5, Shape) and square.area() == 4
fib(30) == 832040 and fib.cache_info().maxsize == 10
properties.cached == Properties().cached == 42 and properties.plain == 1
Properties.made() == 'Properties' and Properties.free() == 's'
match.group() == 'bbb' and match.start() == 2 and pattern.match('x') is not None
lock.acquire(False) and not event.is_set() and jobs.get() == 1 and condition.acquire()
logger is logging.getLogger('x.y')
Registry.known['one'] is Registered and Meta.made == ['WithMeta'] and with_meta.tag == WithMeta().tag == 'meta'
cycle[1] is cycle and tree[0][0] is tree and first.other is second and second.other is first and first.me() is first
factorial(5) == partial() == 120 and factorial.__closure__[0].cell_contents is factorial
numbers[99999] == 99999.0 and len(changing) == 300000 and fixed[0] == view[1] == 121 and view.obj is fixed
weak() is first is weak_values['a']
text.read() == 'bc' and when.year == 2020 and price * 2 == 3 and list(keys) == [1]
list(iterator) == [2, 3] and next(count) == 5
decorated(4) == ('w', 4) and decorated.__doc__ == 'documented' and decorated.__wrapped__(1) == 1
module.k == [1] and module.self is module
isinstance(caught, ZeroDivisionError) and odd.a == 3
known == [context, display, print, globals, tools, llm_query] and space is globals()
ask() == 1 and annotated.attribute == 5 and annotated.__annotations__ == {'x': 'int', 'return': str}
kinds[:6] == [..., NotImplemented, type(None), list[int], typing.Optional[int], range(5)] and kinds[-1] == 10 ** 1000
slots.a == 1 and slots.p() == Slots().p() == 2 and slots.d == 3 and described.x == 'got x'
default['new'] == 7 and chain[1] == 2 and items.maxlen == 3
"""


class ValuesTest(StatesCase):
    def test_values_of_all_kinds(self):
        told, guest, missing = self.move(VALUES)
        self.assertEqual(missing, [])
        for expression in TRUE.strip().splitlines():
            result = guest.run(expression)
            self.assertEqual((result["end"], result.get("value")), ("ok", "True"), (expression, result.get("error")))
        self.assertGreater(told["variables"], 70)

    def test_what_variables_share_stays_shared(self):
        code = "a = []\nb = {'a': a}\nclass C: pass\nc = C()\nc.a = a\ndef pair():\n    n = 0\n    def more():\n"
        code += "        nonlocal n\n        n += 1\n    return more, lambda: n\nmore, get = pair()\nmore()"
        _told, guest, _missing = self.move(code)
        self.run_ok(guest, "a.append(1)\nmore()")
        self.assertEqual(self.value(guest, "b['a'] is a is c.a, get(), isinstance(c, C)"), "(True, 2, True)")

    def test_long_chains(self):
        code = "import sys\nclass Node: pass\nchain = None\n"
        code += "for i in range(2500 if sys.version_info < (3, 12) else 400):\n    node = Node()\n"
        code += "    node.next, node.i, chain = chain, i, node"
        told, guest, _missing = self.move(code)
        self.assertEqual(told["unsaved"], [])
        self.assertEqual(self.value(guest, "chain.next.next.i == chain.i - 2, sys.getrecursionlimit()"), "(True, 1000)")

    def test_code_of_cells_does_not_run_again(self):
        _told, guest, _missing = self.move("import os\nruns = [1]\nprint('ran')\nopen('mark', 'a').write('x')")
        self.assertEqual(self.value(guest, "runs, open('mark').read()"), "([1], 'x')")

    def test_lines_are_shown_and_names_of_sources_stay_apart(self):
        source = self.begin("first = 1")
        self.run_ok(source, "def f():\n    return 1 / 0")
        guest, _told = self.go_on(self.save(source)[1])
        error = guest.run("f()")["error"]
        self.assertIn("return 1 / 0", error["traceback"])
        names = {line.split('"')[1] for line in error["traceback"].splitlines() if '"' in line}
        self.assertEqual(len(names), 2, names)
        self.assertIn("return 1 / 0", self.run_ok(guest, "import inspect\nprint(inspect.getsource(f))")["stdout"])

    def test_surroundings(self):
        code = "import os, sys, xml.dom\nos.mkdir('in')\nos.chdir('in')\nos.environ['MINE'] = 'yes'\n"
        code += "sys.path.insert(1, '/nowhere')\ndel os.environ['MPLBACKEND']"
        _told, guest, _missing = self.move(code)
        self.assertEqual(self.value(guest, "os.path.basename(os.getcwd()), os.environ['MINE']"), "('in', 'yes')")
        self.assertEqual(self.value(guest, "sys.path[1], xml.dom.Node.TEXT_NODE"), "('/nowhere', 3)")
        self.assertEqual(self.value(guest, "'MPLBACKEND' in os.environ"), "False")

    def test_modules_of_the_workspace(self):
        code = "open('helper.py', 'w').write('class Help: pass')\nimport helper\nhelp_ = helper.Help()"
        _told, guest, missing = self.move(code)
        self.assertEqual((missing, self.value(guest, "type(help_) is helper.Help")), ([], "True"))

    def test_open_files(self):
        code = "with open('a', 'w') as f: f.write('one\\ntwo\\n')\nr = open('a')\nr.readline()\nw = open('b', 'w')\n"
        code += "w.write('begun ')\nb = open('a', 'rb')\nb.seek(4)\na = open('b', 'ab', buffering=0)"
        _told, guest, missing = self.move(code)
        self.assertEqual(missing, [])
        self.run_ok(guest, "w.write('and ended')\nw.close()")
        told = self.value(guest, "r.read(), b.read(), open('b').read(), f.closed, f.name, w.mode, a.mode")
        self.assertEqual(told, "('two\\n', b'two\\n', 'begun and ended', True, 'a', 'w', 'ab')")

    def test_random_numbers_differ(self):
        source = self.begin("import random\nrandom.seed(1)\nvalues = []")
        parts = self.save(source)[1]
        ours = {self.value(self.go_on(parts)[0], "random.random()") for _attempt in range(2)}
        self.assertEqual(len({self.value(source, "random.random()"), *ours}), 3)


class LeftOutTest(StatesCase):
    def test_they_are_named_and_take_nothing_with_them(self):
        code = """
import socket, sqlite3, subprocess, threading
def count(): yield 1
data = [1, 2]
generator, holder, partner = count(), {"d": data}, {"data": data}
holder["g"] = generator
async def later(): pass
coroutine = later()
held = threading.Lock()
held.acquire()
thread = threading.Thread(target=print)
left, right = socket.socketpair()
database = sqlite3.connect(":memory:")
process = subprocess.Popen(["true"])
pipe = open("/dev/null")
class Fails:
    def __reduce__(self): raise ValueError("never")
class Ends:
    def __reduce__(self): raise SystemExit
fails, ends = Fails(), [Ends()]
deep = []
for _ in range(100000): deep = [deep]
after = (data, "after")
"""
        told, guest, missing = self.move(code)
        found = self.problems(told)
        kinds = {name: kind for name, (kind, _reason) in found.items()}
        self.assertEqual(kinds.pop("pipe"), "_io.TextIOWrapper")
        expected = "generator holder coroutine held thread left right database process fails ends deep"
        self.assertEqual(sorted(kinds), sorted(expected.split()))
        self.assertEqual((kinds["generator"], kinds["holder"], kinds["left"]), ("generator", "dict", "socket.socket"))
        self.assertIn("generator", found["holder"][1])
        self.assertIn("ValueError: never", found["fails"][1])
        self.assertIn("deep", found["deep"][1])
        self.assertEqual({item["name"] for item in missing}, set(found))
        self.assertEqual(self.value(guest, "partner['data'] is data is after[0], after[1]"), "(True, 'after')")

    def test_finding_them_tells_nothing_again_and_again(self):
        code = """
class Counted:
    told = 0
    def __reduce__(self):
        Counted.told += 1
        return Counted, ()
shared = [Counted() for _ in range(100)]
for i in range(300): globals()[f"bad{i}"] = [i, (x for x in ())]
others = [shared, shared]
"""
        guest = self.begin(code)
        told, _parts = self.save(guest)
        self.assertEqual(sum(name.startswith("bad") for name in self.problems(told)), 200)  # as many as are listed
        self.assertLessEqual(int(self.value(guest, "Counted.told")), 3 * 100)
        before = int(self.value(guest, "Counted.told"))
        self.save(guest)
        self.assertEqual(int(self.value(guest, "Counted.told")) - before, 100)  # they are known by now

    def test_what_hangs(self):
        code = "import signal, time\nrang = []\nsignal.signal(signal.SIGALRM, lambda *_: rang.append(1))\n"
        code += "class Hangs:\n    def __reduce__(self):\n        while True: time.sleep(0.01)\n"
        guest = self.begin(code + "a, hangs, b = 1, Hangs(), 2")
        told, parts = self.save(guest, max_ms=6000)  # a quarter of it for each variable
        self.assertEqual(list(self.problems(told)), ["hangs"])
        self.assertEqual(self.value(self.go_on(parts)[0], "a, b"), "(1, 2)")
        self.run_ok(guest, "signal.setitimer(signal.ITIMER_REAL, 0.01)\nwhile not rang: time.sleep(0.01)")

    def test_the_whole_time_is_limited(self):
        code = "import time\nclass Slow:\n    def __reduce__(self):\n"
        code += "        time.sleep(0.02)\n        return Slow, ()\n"
        guest = self.begin(code + "for i in range(200): globals()[f's{i}'] = Slow()")
        told, parts = portable.save(guest, max_ms=300)
        self.assertEqual((told["end"], told["error"]["errno"], parts), ("error", "ETIMEDOUT", []))
        self.assertEqual(self.value(guest, "type(s0).__name__"), "'Slow'")

    def test_interrupts(self):
        guest = self.begin("class Hangs:\n    def __reduce__(self):\n        while True: pass\nhangs = Hangs()")
        guest.serial += 1
        guest.send(portable.SAVE, {"id": guest.serial, "max_bytes": 1 << 20, "max_ms": 0, "digest": None})
        with self.assertRaises(TimeoutError):
            guest.wait(0.3)
        guest.interrupt()
        self.assertEqual(guest.result()[0]["end"], "interrupted")
        self.assertEqual(self.value(guest, "1 + 1"), "2")

    def test_memory(self):
        guest = self.start()
        limit = 200 << 20
        code = "data = {i: str(i) * 10 for i in range(600000)}"
        self.assertEqual(guest.run(code, memory_bytes=limit)["end"], "ok")
        guest.run("x = bytearray(1 << 40)", memory_bytes=limit)  # which lifts the limit until the next execution
        told, parts = portable.save(guest)
        if told["end"] != "ok":
            self.assertEqual((told["error"]["errno"], parts), ("ENOMEM", []))
        self.assertEqual(guest.run("len(data)", memory_bytes=limit)["value"], "600000")

    def test_a_child_of_reduce_never_comes_back(self):
        code = "import os\nclass Forks:\n    def __reduce__(self):\n        os.fork()\n        return Forks, ()\n"
        guest = self.begin(code + "forks = Forks()")
        told, parts = self.save(guest)
        self.assertEqual(told["unsaved"], [])
        self.assertEqual(self.value(self.go_on(parts)[0], "type(forks).__name__"), "'Forks'")

    def test_sizes_are_bounded(self):
        guest = self.begin("data = bytes(1 << 20)")
        told, parts = portable.save(guest, max_bytes=1 << 19)
        self.assertEqual((told["error"]["errno"], parts), ("EFBIG", []))
        self.run_ok(guest, "del data\nopen('sparse', 'wb').truncate(1 << 40)")
        self.assertEqual(portable.save(guest)[0]["error"]["errno"], "EFBIG")


if __name__ == "__main__":
    unittest.main()
