#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The JavaScript guest: what lasts, what is shown, how it ends, and that its states are as exact as Python's."""
import os
import tempfile

import wasm_case
from tap import main, skip

IMAGE = "guests/wasm/javascript.sbximg"


def server(*settings):
    driver = wasm_case.server(*settings)
    if not os.path.exists(os.path.join(os.environ["SNIPARA_SANDBOX_BUILD_ROOT"], IMAGE)):
        driver.close()
        skip("the JavaScript guest was not built (guests/wasm/build.py javascript)")
    return driver


def start(driver, **members):
    return driver.start(runtime="node", **members)


def value_of(guest, code):
    result = guest.execute(code)
    assert result["end"] == "ok", result
    return result["value"]


def test_state_lasts():
    with server() as driver:
        guest = start(driver)
        assert value_of(guest, "let x = 1; const y = 2; class A { constructor() { this.q = x; } }"
                               " function f() { return x + y } f()") == "3"
        assert value_of(guest, "let x = 5; const y = 6; f()") == "11"  # declared again, and seen by what was there
        assert value_of(guest, "new A()") == "A { q: 5 }"
        waits = "x = await new Promise((done) => setTimeout(() => done([1, {a: 'b'}]), 1))"
        assert value_of(guest, waits) == "[ 1, { a: 'b' } ]"
        assert value_of(guest, "{a: 1}") == "{ a: 1 }"


def test_output_and_errors():
    with server() as driver:
        guest = start(driver)
        result = guest.execute("console.log('é %d', 4, {a: [1]}); console.error('bad'); undefined")
        assert (result["stdout"], result["stderr"], result["value"]) == ("é 4 { a: [ 1 ] }\n", "bad\n", None), result
        result = guest.execute("function deep() { null.x }\ndeep()")
        assert (result["end"], result["error_type"]) == ("error", "TypeError"), result
        assert "at deep (<execution 2>:1:" in result["traceback"] and "/usr/lib/sbx" not in result["traceback"], result
        assert guest.execute("const = 1")["error_type"] == "SyntaxError"
        assert guest.execute("await Promise.reject(new RangeError('no'))")["error"] == "no"
        assert guest.execute("Promise.reject(new Error('lost'))")["error"] == "lost"
        assert guest.execute("await new Promise(() => {})")["end"] == "error"
        assert guest.execute("process.exit(3)")["error_type"] == "ExitError"
        assert guest.execute("process.exit()")["end"] == "ok"


def test_endless_recursion():
    with server() as driver:
        guest = start(driver)
        for code in ("function f(n) { return 1 + f(n + 1) } f(0)", "const a = []; a.toString = () => `${a}`; String(a)",
                     "let s = '['.repeat(1e6); JSON.parse(s)", "eval('('.repeat(1e6))", "new RegExp('('.repeat(1e6))",
                     "let a = []; for (let i = 0; i < 1e6; i++) a = [a]; a.flat(Infinity)"):
            result = guest.execute(code)
            assert result["end"] == "error", (code, result["end"], result["error"])
            assert value_of(guest, "6 * 7") == "42", code


def test_interrupts_keep_the_state():
    with server() as driver:
        guest = start(driver)
        guest.execute("var kept = 'still here'")
        for code in ("for (;;);", "for (;;) try { for (;;); } catch {} finally { kept = 1 }", "/(a+)+b/.test('a'.repeat(50))",
                     "(async () => { for (;;) await null })()", "await new Promise((done) => setTimeout(done, 1e9))",
                     "const f = () => Promise.resolve().then(f); f()", "[1, 2].sort(() => { for (;;); })"):
            result = guest.execute(code, timeout_ms=300)
            assert (result["end"], result["state"]) == ("timeout", "kept"), (code, result)
            assert value_of(guest, "kept") == "'still here'", code


def test_memory():
    with server() as driver:
        guest = start(driver, memory_bytes=64 << 20)
        for code in ("const all = []; for (;;) all.push('x'.repeat(1000) + all.length)", "new ArrayBuffer(1e9)",
                     "let s = 'ab'; for (;;) s += s.slice(1)"):
            result = guest.execute(code)
            # A string's own limit is met before that of memory.
            assert result["end"] in ("memory", "error") and result["state"] == "kept", (code, result)
            guest.execute("globalThis.all = globalThis.s = null")
            assert value_of(guest, "1 + 1") == "2", code


def test_files():
    with server() as driver, tempfile.TemporaryDirectory() as directory:
        guest = start(driver)
        ours = os.path.join(directory, "data")
        with open(ours, "wb") as f:
            f.write(b"\0\xff" * 70000)
        guest.write("deep/er/data.bin", ours)
        reads = "const fs = require('fs'); const b = fs.readFileSync('deep/er/data.bin'); [b.length, b[1]]"
        assert value_of(guest, reads) == "[ 140000, 255 ]"
        guest.execute("fs.writeFileSync('out.txt', 'grüße'); fs.mkdirSync('a/b', {recursive: true})")
        guest.read("out.txt", ours)
        with open(ours, "rb") as f:
            assert f.read() == "grüße".encode()
        assert value_of(guest, "fs.readdirSync('.')") == "[ 'a', 'deep', 'out.txt' ]"
        for path in ("/etc/passwd", "/proc/self/maps", "../../etc/passwd", "/work/../etc/shadow"):
            assert "ENOENT" in guest.execute("fs.readFileSync(%r)" % path)["error"], path
        assert guest.execute("fs.writeFileSync('/usr/lib/sbx/javascript/worker.js', '')")["end"] == "error"


def test_nothing_reaches_out():
    with server() as driver:
        guest = start(driver)
        for name in ("fetch", "WebSocket", "XMLHttpRequest", "Worker", "std", "os", "Buffer"):
            assert value_of(guest, "typeof " + name) == "'undefined'", name
        for name in ("net", "http", "child_process", "worker_threads", "os"):
            assert "Cannot find module" in guest.execute("require(%r)" % name)["error"], name


def test_states():
    with server() as driver, tempfile.TemporaryDirectory() as directory:
        guest, path = start(driver), os.path.join(directory, "state")
        guest.execute("function* numbers() { for (let i = 0; ; i++) yield i } const half = numbers(); half.next();"
                      " const cell = ((n) => () => ++n)(5); cell()")
        copy = guest.fork()
        guest.save(path)
        assert value_of(copy, "[half.next().value, cell()]") == "[ 1, 7 ]"
        assert value_of(guest, "half.next().value") == "1"
        restored = driver.restore(path, runtime="node")
        assert value_of(restored, "[half.next().value, cell()]") == "[ 1, 7 ]"
        others = [driver.restore(path, runtime="node"), *(start(driver) for _ in range(3))]
        drawn = [value_of(each, "Math.random()") for each in (guest, copy, restored, *others)]
        assert len(set(drawn)) == len(drawn), drawn


if __name__ == "__main__":
    main()
