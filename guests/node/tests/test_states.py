# SPDX-License-Identifier: Apache-2.0
"""Portable states of the Node worker: what one session holds is there in another one, in another directory."""

import json
import os
import sys
import tempfile
import unittest

from harness import OLDEST, Guest, version

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python", "tests"))
from portable import restore, save  # noqa: E402

FOUND = version()


@unittest.skipIf(FOUND < OLDEST, f"Node {OLDEST} or later is not here (SBX_TEST_NODE names one)")
class StatesTest(unittest.TestCase):
    def make(self, **options):
        """In a directory of its own, which belongs to the session alone."""
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        guest = Guest(cwd=directory.name, env={"TMPDIR": directory.name}, **options)
        self.addCleanup(guest.close)
        guest.directory = os.path.realpath(directory.name)
        return guest

    def run_ok(self, guest, code):
        result = guest.run(code)
        self.assertEqual(result["end"], "ok", result)
        return result

    def move(self, guest):
        """(another session with the state of the first, what was told at saving, at restoring)"""
        told, parts = save(guest)
        self.assertEqual(told["end"], "ok", told)
        other = self.make()
        restored = restore(other, parts)
        self.assertEqual(restored["end"], "ok", restored)
        return other, told, restored

    def moved(self, code, look):
        """The value of an expression in the other session, which is what it is in the first one."""
        guest = self.make()
        self.run_ok(guest, code)
        other, told, restored = self.move(guest)
        self.assertEqual((told["unsaved"], restored["missing"]), ([], []))
        self.assertEqual(restored["variables"], told["variables"])
        here, there = self.run_ok(guest, look).get("value"), self.run_ok(other, look).get("value")
        self.assertEqual(here, there)
        return there

    def test_values(self):
        code = """let a = 1, s = 'text \\u{1f600} \\ud800', big = 10n ** 30n, u, z = -0, n = NaN, t = true, nil = null
            const d = new Date(1e12), r = /a+/gi; r.lastIndex = 3
            const m = new Map([['k', {v: 1}], [NaN, 2]]), st = new Set([1, 'x']); m.get('k').self = m
            const holes = [1, , 3]; holes.extra = 'e'; const sparse = []; sparse[1e6] = 1
            const sym = Symbol('own'), o = {[sym]: 1, [Symbol.for('q')]: 2, nested: {deep: [[[]]]}, get acc() { return this.nested }}
            Object.defineProperty(o, 'hidden', {value: 7}); const frozen = Object.freeze({x: [1]}), bare = Object.create(null)
            const e = new RangeError('bad', {cause: o}); e.code = 'E1'; const boxed = [Object('s'), Object(1), Object(false)]
            const url = new URL('http://h/p?q=1'); context['a name'] = 5"""
        look = """require('util').inspect([a, s, big, u, Object.is(z, -0), n, t, nil, d, r, r.lastIndex, m, m.get('k').self === m, st,
            holes, 1 in holes, holes.extra, sparse.length, Object.keys(sparse), o[sym], o[Symbol.for('q')], o.acc === o.nested,
            o.hidden, Object.keys(o), Object.isFrozen(frozen), Object.getPrototypeOf(bare), e.name, e.message, e.cause === o,
            e.code, e instanceof RangeError, e.stack.split('\\n')[0], boxed, url.searchParams.get('q'), context['a name']],
            {depth: 9})"""
        self.assertIn("'E1'", self.moved(code, look))

    def test_buffers(self):
        code = """const ab = new ArrayBuffer(64), f = new Float64Array(ab, 8, 2), v = new DataView(ab, 4); f[0] = 1.5
            const small = Buffer.from('small'), large = Buffer.alloc(600000, 'ab'), part = large.subarray(10, 20)
            const bigs = new BigUint64Array([2n ** 63n])"""
        look = """v.setFloat64(4, 2.5, true); part[0] = 65
            JSON.stringify([f[0], f.buffer === v.buffer, small.toString(), Buffer.isBuffer(small), large.length, large[10],
                part.buffer === large.buffer, String(bigs[0]), large.equals(Buffer.alloc(5))])"""
        self.assertEqual(self.moved(code, look), "'[2.5,true,\"small\",true,600000,65,true,\"9223372036854775808\",false]'")

    def test_functions_and_classes(self):
        code = """let k = 10; function f(a = 1) { return a + k + g() }; const g = () => k * 2; async function h() { return await f() }
            function* gen() { yield k; yield* [1, 2] }; const o = {m(x) { return x + this.k2 }, k2: 5, get p() { return k }}
            class Base { static made = 3; constructor(v) { this.v = v } get twice() { return this.v * 2 } say() { return 'base' + this.v }
                         static create(v) { return new this(v) } }
            class Derived extends Base { say() { return 'derived ' + super.say() } [Symbol.toPrimitive]() { return 42 } }
            class Bad extends Error { constructor(m) { super(m); this.name = 'Bad' } }; class List extends Array { sum() { return this.reduce((a, b) => a + b, 0) } }
            function Old() { this.z = 1 } Old.prototype.hi = function () { return 'hi' + this.z }; const old = new Old()
            const one = new Derived(4), many = [one, one, Base.create(9)], bad = new Bad('why'), list = List.from([1, 2, 3])
            Base.prototype.patched = function () { return 'patched' + this.v }; Base.later = 8; f.note = 'n'; const max = Math.max, say = Base.prototype.say"""
        look = """JSON.stringify([f(), f.note, f.name, g.name, await h(), [...gen()], o.m(1), o.p, one.say(), one.twice, one.patched(),
            many[0] === many[1], many[2].say(), Derived.create(2).say(), Base.made, Base.later, one instanceof Base, +one, bad.name,
            bad.message, bad instanceof Error, list.sum(), list instanceof List, list.map((x) => x * 2).sum(), old.hi(), new Old().hi(),
            max === Math.max, say === Base.prototype.say, Derived.name, Object.getPrototypeOf(Derived) === Base, k])"""
        out = self.moved(code, look)
        self.assertIn('"derived base4"', out)
        self.assertIn('"patched4"', out)

    def test_nothing_runs_again(self):
        code = """globalThis.ran = 0; class A { static x = ++ran; static { ran += 10 } constructor() { ran += 100 } }
            const a = new A(); const o = {get g() { ran += 1000; return 1 }, toJSON() { ran += 1e4 }, valueOf() { ran += 1e5 }}; undefined"""
        self.assertEqual(self.moved(code, "[ran, A.x]"), "[ 111, 1 ]")

    def test_modules(self):
        guest = self.make()
        with open(os.path.join(guest.directory, "own.js"), "w", encoding="ascii") as file:
            file.write("exports.value = 5; exports.f = () => exports.value")
        self.run_ok(guest, """const fs = require('fs'); import * as path from 'path'; import os, {EOL} from 'os'; import {join} from 'node:path'
            const own = require('./own.js'), {f} = own; const read = fs.readFileSync; undefined""")
        other, told, restored = self.move(guest)
        self.assertEqual((told["unsaved"], restored["missing"]), ([], []))
        look = """JSON.stringify([read === fs.readFileSync, path.default === require('path'), path.join('a', 'b'), os === require('os'),
            EOL, join('c', 'd'), own.value, f(), f === own.f])"""
        self.assertEqual(self.run_ok(guest, look)["value"], self.run_ok(other, look)["value"])
        self.assertNotIn("fs", other.run("1").get("names", []))

    def test_what_cannot_be_saved(self):
        guest = self.make()
        self.run_ok(guest, """let kept = 1; const counter = (() => { let n = 0; return () => ++n })(); const p = Promise.resolve(1)
            function* g() { yield 1 } const it = g(), wm = new WeakMap(), prox = new Proxy({}, {get() { kept = 'touched' }})
            class P { #secret = 1 } const priv = new P(); const leads = {deep: [{counter}]}; const bound = Math.max.bind(null)
            const stream = process.stdout; const server = require('net').createServer(() => {}).listen(); const meth = {m() { return super.x }}
            setInterval(() => {}, 1e6); undefined""")
        told, parts = save(guest)
        self.assertEqual(told["end"], "ok", told)
        found = {item["name"]: item["reason"] for item in told["unsaved"]}
        for name in ("counter", "p", "it", "wm", "prox", "priv", "leads", "bound", "server", "stream", "meth", "(background)"):
            self.assertIn(name, found)
        self.assertIn("uses n of the code that made it", found["counter"])
        self.assertIn("private", found["priv"])
        self.assertEqual(self.run_ok(guest, "[kept, counter(), counter()]")["value"], "[ 1, 1, 2 ]")  # as it was
        other = self.make()
        restored = restore(other, parts)
        self.assertEqual(restored["missing"], told["unsaved"])
        self.assertEqual(self.run_ok(other, "[kept, typeof counter, [...g()]]")["value"], "[ 1, 'undefined', [ 1 ] ]")

    def test_files_directory_and_environment(self):
        guest = self.make()
        self.run_ok(guest, """const fs = require('fs'); fs.mkdirSync('sub/deep', {recursive: true}); process.chdir('sub'); process.env.ADDED = '1'
            fs.writeFileSync('deep/a', 'content'); fs.symlinkSync('deep/a', 'link'); fs.chmodSync('deep/a', 0o640); delete process.env.PATH
            fs.utimesSync('deep/a', 1e9, 1e9); fs.writeFileSync('large', Buffer.alloc(700000, 'x')); fs.writeFileSync('empty', '')""")
        other, told, restored = self.move(guest)
        self.assertEqual((restored["missing"], told["files"]), ([], {"count": 6, "bytes": 700007}))
        look = """const st = fs.statSync('deep/a'); JSON.stringify([process.cwd().split('/').pop(), fs.readFileSync('link', 'utf8'), st.mode & 0o777,
            st.mtimeMs, fs.statSync('large').size, fs.statSync('empty').size, process.env.ADDED, process.env.PATH, process.env.TMPDIR])"""
        out = json.loads(self.run_ok(other, look)["value"][1:-1])
        self.assertEqual(out, ["sub", "content", 0o640, 1e12, 700000, 0, "1", None, other.directory])

    def test_unchanged(self):
        guest = self.make()
        self.run_ok(guest, "let x = 1, o = {a: [1]}; function f() {}; undefined")
        told, _parts = save(guest)
        again, none = save(guest, told["digest"])
        self.assertEqual((again["unchanged"], none, again["digest"]), (True, [], told["digest"]))
        self.run_ok(guest, "x + o.a.length")
        self.assertTrue(save(guest, told["digest"])[0]["unchanged"])
        for change in ("x = 2", "o.a.push(1)", "f = () => 1", "require('fs').writeFileSync('n', 'x')", "delete o.a"):
            self.run_ok(guest, change)
            before, told = told, save(guest, told["digest"])[0]
            self.assertNotIn("unchanged", told, change)
            self.assertNotEqual(told["digest"], before["digest"])

    def test_random_numbers_differ(self):
        guest = self.make()
        self.run_ok(guest, "Math.random()")
        _told, parts = save(guest)
        seen = set()
        for _ in range(3):
            other = self.make()
            restore(other, parts)
            seen.add(self.run_ok(other, "[Math.random(), crypto.randomUUID()]")["value"])
        self.assertEqual(len(seen), 3)

    def test_limits(self):
        guest = self.make()
        self.run_ok(guest, "const large = Buffer.alloc(3e6); undefined")
        refused, _parts = save(guest, max_bytes=1000000)
        self.assertEqual((refused["end"], refused["error"]["errno"]), ("error", "EFBIG"))
        self.run_ok(guest, "const many = Array.from({length: 1e6}, (_, i) => ({i})); undefined")
        refused, _parts = save(guest, max_ms=1)
        self.assertEqual((refused["end"], refused["error"]["errno"]), ("error", "ETIMEDOUT"))
        self.assertEqual(self.run_ok(guest, "many.length")["value"], "1000000")

    def test_deep_structures(self):
        self.moved("let list = null; for (let i = 0; i < 100000; i++) list = {list}", "let n = 0; for (let at = list; at; at = at.list) n++; n")

    def test_through_a_relay(self):
        """Where output is framed, another process hands all frames on."""
        guest, other = self.make(framed=True), self.make(framed=True)
        self.run_ok(guest, "const x = {a: 1}, large = Buffer.alloc(9e6, 'q'); console.log('out')")
        told, parts = save(guest)
        self.assertEqual((told["end"], told["unsaved"]), ("ok", []))
        self.assertEqual(restore(other, parts)["missing"], [])
        self.assertEqual(self.run_ok(other, "[x.a, large.length, large[8999999]]")["value"], "[ 1, 9000000, 113 ]")

    def refused(self, parts):
        guest = self.make()
        told = restore(guest, parts)
        self.assertEqual(told["end"], "error", told)
        self.assertEqual(self.run_ok(guest, "1 + 1")["value"], "2")
        return told["error"].get("errno")

    def test_damaged_states(self):
        guest = self.make()
        self.run_ok(guest, "let x = 1, o = {a: 1}; function f() {}")
        _told, parts = save(guest)
        index = json.loads(parts[0])
        self.assertEqual(self.refused([]), "EBADMSG")
        self.assertEqual(self.refused([b"", *parts[1:]]), "EBADMSG")
        self.assertEqual(self.refused([parts[0][:-3], *parts[1:]]), "EBADMSG")
        self.assertEqual(self.refused(parts[:1]), "EBADMSG")
        self.assertEqual(self.refused([parts[0], parts[1][:-4]]), "EBADMSG")
        self.assertEqual(self.refused([parts[0], bytes(len(parts[1]))]), "EBADMSG")
        for members, code in (({"version": 99}, "EPROTONOSUPPORT"), ({"language": "python"}, "EBADMSG"), ({"files": 5}, "EBADMSG"),
                              ({"files": [["tmp", [["f", "../out", 420, "0", 0, 0, 0]]]]}, "EBADMSG"), ({"unsaved": None}, "EBADMSG")):
            self.assertEqual(self.refused([json.dumps({**index, **members}).encode(), *parts[1:]]), code, members)
        for at in range(len(parts[1])):  # whatever stands there: refused, or told as missing
            damaged = bytearray(parts[1])
            damaged[at] ^= 0x41
            if at % 16 == 0:
                self.assertIn(restore(self.make(), [parts[0], bytes(damaged)])["end"], ("ok", "error"))
        told = restore(guest, parts)
        self.assertEqual((told["end"], told["error"]["errno"]), ("error", "EBUSY"))

    def test_source_that_is_more_than_a_function(self):
        """What is restored is functions; nothing else in a state is run."""
        guest = self.make()
        self.run_ok(guest, "globalThis.ran = 0; function f() { return 'the function' }")
        _told, parts = save(guest)
        for text in (b"(ran = 'evil', () => 1)", b"ran = 'evil'", b"1); ran = 'evil'; (2", b"{m: ran = 'evil'}"):
            source = b"function  () { return 'the function' }"
            self.assertIn(source, parts[1])
            other = self.make()
            told = restore(other, [parts[0], parts[1].replace(source, text.ljust(len(source)))])
            self.assertEqual([item["name"] for item in told["missing"]], ["f"], told)
            self.assertEqual(self.run_ok(other, "ran")["value"], "0")


if __name__ == "__main__":
    unittest.main()
