// SPDX-License-Identifier: Apache-2.0
// The official MCP TypeScript client against `snipara-sandbox mcp-serve`. Prints TAP. The program is $SNIPARA_SANDBOX.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";

import { McpError } from "@modelcontextprotocol/sdk/types.js";

import { alive, connect, processTree, textOf } from "./server.mjs";
import { main, test } from "./tap.mjs";

const { client, transport } = await connect();

async function call(name, args = {}, options = undefined) {
  return client.callTool({ name, arguments: args }, undefined, options);
}

async function python(code, more = {}, options = undefined) {
  const result = await call("execute_python", { code, ...more }, options);
  assert.notEqual(result.isError, true, textOf(result));
  return textOf(result);
}

test("the handshake names the server and its tools", async () => {
  assert.equal(client.getServerVersion().name, "SniparaSandbox");
  assert.ok(client.getServerCapabilities().tools);
  assert.ok(client.getInstructions().length > 0);
  const { tools, nextCursor } = await client.listTools();
  assert.equal(nextCursor, undefined);
  const names = tools.map((tool) => tool.name);
  for (const name of ["execute_python", "execute", "get_repl_context", "set_repl_context", "clear_repl_context",
    "list_sessions", "destroy_session", "checkpoint_session", "list_checkpoints", "rollback_session", "fork_session"])
    assert.ok(names.includes(name), `${name} is missing among ${names}`);
  for (const tool of tools) {
    assert.equal(tool.inputSchema.type, "object");
    assert.ok(tool.description.length > 0);
  }
  assert.deepEqual((await client.listTools()).tools, tools);
});

test("ping", async () => {
  await client.ping();
});

test("a variable set in one call is read in the next", async () => {
  await python("kept = 41");
  assert.match(await python("print(kept + 1)"), /42/);
});

test("a cancelled loop ends, and the variable is still there", async () => {
  const cancel = new AbortController();
  const running = call("execute_python", { code: "while True: pass" }, { signal: cancel.signal });
  await sleep(500);
  cancel.abort("enough");
  await assert.rejects(running);
  const began = Date.now();
  assert.match(await python("print(kept + 1)"), /42/);
  assert.ok(Date.now() - began < 3000, "the session was not free soon after");
});

test("a call that runs out of time is an error of the tool, and the variable is still there", async () => {
  const result = await call("execute_python", { code: "while True: pass", timeout: 1 });
  assert.equal(result.isError, true);
  assert.match(textOf(result), /time/i);
  assert.match(await python("print(kept + 1)"), /42/);
});

test("two sessions run at the same time", async () => {
  const code = "import time; begin = time.monotonic(); time.sleep(2); print(begin, time.monotonic())";
  const [left, right] = (await Promise.all([python(code, { session_id: "left" }), python(code, { session_id: "right" })]))
    .map((text) => text.trim().split(" ").map(Number));
  assert.ok(left[0] < right[1] && right[0] < left[1], `${left} and ${right} do not overlap`);
});

test("sessions do not see each other's variables", async () => {
  await python("mine = 'left'", { session_id: "left" });
  const result = await call("execute_python", { code: "print(mine)", session_id: "right" });
  assert.equal(result.isError, true);
  assert.match(textOf(result), /NameError/);
});

test("progress grows, and keeps a long call from timing out", async () => {
  const seen = [];
  await python("import time\ntime.sleep(5)", {}, {
    timeout: 4000,
    resetTimeoutOnProgress: true,
    onprogress: (progress) => seen.push(progress.progress),
  });
  assert.ok(seen.length >= 2, `${seen.length} notifications`);
  for (let i = 1; i < seen.length; i++) assert.ok(seen[i] > seen[i - 1], `not growing: ${seen}`);
});

test("a Python exception is an error of the tool, with its traceback", async () => {
  const result = await call("execute_python", { code: "def f():\n    return 1 / 0\nf()" });
  assert.equal(result.isError, true);
  assert.match(textOf(result), /Traceback[^]*ZeroDivisionError/);
});

test("an unknown tool is an error of the protocol", async () => {
  await assert.rejects(call("execute_pyton", { code: "1" }), (error) => {
    assert.ok(error instanceof McpError);
    assert.equal(error.code, -32602);
    return true;
  });
});

test("bad arguments are an error of the tool that says what is wrong", async () => {
  for (const [args, words] of [
    [{}, /code/],
    [{ code: 7 }, /code/],
    [{ code: "1", profile: "huge" }, /profile/],
    [{ code: "1", timeout: 100000 }, /timeout/],
    [{ code: "1", sesion_id: "x" }, /sesion_id/],
  ]) {
    const result = await call("execute_python", args);
    assert.equal(result.isError, true, JSON.stringify(args));
    assert.match(textOf(result), words);
  }
});

test("sessions are listed and destroyed", async () => {
  await python("a = 1", { session_id: "short-lived" });
  assert.match(textOf(await call("list_sessions")), /short-lived/);
  const destroyed = await call("destroy_session", { session_id: "short-lived" });
  assert.notEqual(destroyed.isError, true);
  assert.doesNotMatch(textOf(await call("list_sessions")), /short-lived/);
  const result = await call("execute_python", { code: "print(a)", session_id: "short-lived" });
  assert.equal(result.isError, true); // a new session of the same name knows nothing
});

test("the context is set, read and cleared", async () => {
  await call("set_repl_context", { key: "from_json", value: '{"n": [1, 2]}' });
  assert.match(await python("print(from_json['n'][1] + 40)"), /42/);
  assert.match(textOf(await call("get_repl_context")), /from_json/);
  await call("clear_repl_context");
  assert.equal((await call("execute_python", { code: "print(from_json)" })).isError, true);
});

test("execute starts from nothing each time", async () => {
  assert.match(textOf(await call("execute", { code: "fresh = 1\nprint(fresh)" })), /1/);
  assert.equal((await call("execute", { code: "print(fresh)" })).isError, true);
});

test("the server ends soon after its client, and leaves no process", async () => {
  const running = call("execute_python", { code: "while True: pass", session_id: "left" }).catch(() => {});
  await sleep(300);
  const pids = processTree(transport.pid);
  assert.ok(pids.length > 1, "no guest is running");
  const began = Date.now();
  await client.close();
  await running;
  while (alive(pids).length > 0 && Date.now() - began < 5000) await sleep(20);
  assert.deepEqual(alive(pids), []);
  assert.ok(Date.now() - began < 2000, `took ${Date.now() - began} ms`);
});

await main(() => client.close());
