// SPDX-License-Identifier: Apache-2.0
// The official TypeScript SDKs, v1 and v2, in each mode of negotiation, over standard input and HTTP: what a user does
// with a sandbox, and what a server may ask of a client. Prints TAP. An argument picks drivers whose name has it.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";

import { drivers } from "./drivers.mjs";
import { textOf } from "./server.mjs";
import { main, Skip, test } from "./tap.mjs";

const WAIT_MS = 30000;

/** What `check` returns once it is not undefined. */
async function eventually(what, check) {
  for (const end = Date.now() + WAIT_MS; Date.now() < end; await sleep(20)) {
    const found = await check();
    if (found !== undefined) return found;
  }
  throw new Error(`${what}: it did not happen in ${WAIT_MS} ms`);
}

async function ok(connection, tool, args, options) {
  const result = await connection.call(tool, args, options);
  assert.notEqual(result.isError, true, textOf(result));
  return result;
}

const python = async (connection, code, more = {}, options = undefined) =>
  textOf(await ok(connection, "execute_python", { code, ...more }, options));

// One blue pixel, by hand: the guest may have no imaging library.
const plot = `
import struct, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
class Plot:
    def _repr_png_(self):
        return (b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
                + chunk(b"IDAT", zlib.compress(b"\\0\\0\\0\\xff")) + chunk(b"IEND", b""))
Plot()
`;

const scenarios = {
  async "the server names itself, and lists the same tools each time"({ connection }) {
    assert.equal(connection.client.getServerVersion().name, "SniparaSandbox");
    assert.ok(connection.client.getInstructions().length > 0);
    const { tools } = await connection.client.listTools();
    const names = tools.map((tool) => tool.name);
    for (const name of ["execute_python", "execute", "list_sessions", "upload_file", "download_file", "list_files"])
      assert.ok(names.includes(name), `${name} is missing among ${names}`);
    assert.deepEqual((await connection.client.listTools()).tools, tools);
  },

  async "a variable is set, and read back"({ connection }) {
    await python(connection, "kept = 41", { session_id: "kept" });
    assert.match(await python(connection, "print(kept + 1)", { session_id: "kept" }), /42/);
  },

  async "a cancelled loop ends, and its session keeps what it had"({ connection }) {
    const session_id = "loop";
    await python(connection, "begun = 40", { session_id });
    const cancel = new AbortController();
    const running = connection.call("execute_python", { code: "begun = 41\nwhile True: pass", session_id },
      { signal: cancel.signal });
    running.catch(() => {});
    await sleep(700);
    cancel.abort("enough");
    await assert.rejects(running);
    // It waits for its turn: the loop would hold the session for ever.
    assert.match(await python(connection, "print(begun + 1)", { session_id }), /4[12]/);
  },

  async "a plot arrives as an image, and its link can be read"({ connection }) {
    const { content } = await ok(connection, "execute_python", { code: plot, session_id: "plots" });
    const image = content.find((block) => block.type === "image");
    assert.equal(image?.mimeType, "image/png", JSON.stringify(content));
    assert.equal(Buffer.from(image.data, "base64").subarray(1, 4).toString(), "PNG");
    const link = content.find((block) => block.type === "resource_link");
    assert.match(link?.uri ?? "", /^repl:\/\/plots\//, JSON.stringify(content));
    assert.ok(link.name.length > 0);
    const { contents: [read] } = await connection.client.readResource({ uri: link.uri });
    assert.deepEqual([read.uri, read.mimeType, read.blob], [link.uri, "image/png", image.data]);
  },

  async "a figure of matplotlib arrives as an image"({ connection }) {
    const there = await python(connection, "import importlib.util as u; print(u.find_spec('matplotlib') is not None)");
    if (!/True/.test(there)) throw new Skip("the guest's Python has no matplotlib");
    const { content } = await ok(connection, "execute_python",
      { code: "import matplotlib.pyplot as plt\nplt.plot([1, 4, 9])\nplt.show()", session_id: "matplotlib" });
    assert.ok(content.some((block) => block.type === "image" && block.mimeType === "image/png"), JSON.stringify(content));
  },

  async "a file is uploaded, used, read and listed"({ connection }) {
    const session_id = "files", bytes = Buffer.from([0, 1, 254, 255]);
    await ok(connection, "upload_file", { path: "data/in.txt", content: "7\n8\n", session_id });
    await ok(connection, "upload_file", { path: "raw.bin", content_base64: bytes.toString("base64"), session_id });
    assert.match(await python(connection, "print(sum(map(int, open('data/in.txt'))))", { session_id }), /15/);
    await python(connection, "_ = open('data/out.txt', 'w').write('made here')", { session_id });
    const down = await ok(connection, "download_file", { path: "data/out.txt", session_id });
    assert.match(JSON.stringify(down.content), /made here/);
    assert.match(JSON.stringify((await ok(connection, "list_files", { session_id })).content), /in\.txt[^]*raw\.bin/);
    const { contents: [read] } = await connection.client.readResource({ uri: `repl://${session_id}/files/raw.bin` });
    assert.equal(read.blob, bytes.toString("base64"));
    const { resources } = await connection.client.listResources();
    assert.ok(resources.some(({ uri }) => uri === `repl://${session_id}/files/data/out.txt`), JSON.stringify(resources));
  },

  async "files of a session are not outside of it"({ connection }) {
    for (const path of ["../../etc/passwd", "/etc/passwd", "a/../../b"]) {
      const result = await connection.call("download_file", { path, session_id: "files" });
      assert.equal(result.isError, true, `${path}: ${JSON.stringify(result)}`);
    }
    await assert.rejects(connection.client.readResource({ uri: "repl://files/files/../../etc/passwd" }));
    await assert.rejects(connection.client.readResource({ uri: "repl://nobody/files/x" }));
  },

  async "two sessions run at the same time"({ connection }) {
    const code = "import time; begin = time.monotonic(); time.sleep(1.5); print(begin, time.monotonic())";
    const [left, right] = (await Promise.all(["left", "right"].map((session_id) =>
      python(connection, code, { session_id })))).map((text) => text.trim().split(" ").map(Number));
    assert.ok(left[0] < right[1] && right[0] < left[1], `${left} and ${right} do not overlap`);
  },

  async "two clients have the same sessions at hand, or none of the other's"({ opened, connection, driver }) {
    const other = await opened.connect();
    try {
      await python(connection, "mine = 1", { session_id: "common" });
      const result = await other.call("execute_python", { code: "print(mine)", session_id: "common" });
      // One local user over HTTP; a process of its own for each client over pipes.
      assert.equal(result.isError === true, !driver.shared, textOf(result));
    } finally {
      await other.close();
    }
  },

  async "progress grows, and keeps a long call alive"({ connection }) {
    const seen = [];
    await ok(connection, "test_tool_with_progress", {}, { onprogress: ({ progress }) => seen.push(progress) });
    // SDK v2 loses what comes in one piece with the answer, as the last one may.
    assert.deepEqual(seen.slice(0, 2), [0, 50]);
    assert.ok(seen.length < 4 && (seen[2] ?? 100) === 100, `${seen}`);
    const beats = [];
    await python(connection, "import time\ntime.sleep(5)", {},
      { timeout: 4000, resetTimeoutOnProgress: true, onprogress: ({ progress }) => beats.push(progress) });
    assert.ok(beats.length >= 1);
    for (let i = 1; i < beats.length; i++) assert.ok(beats[i] > beats[i - 1], `${beats}`);
  },

  async "resources, templates and prompts are listed and read"({ connection: { client } }) {
    const { resources } = await client.listResources();
    assert.ok(resources.some(({ uri }) => uri === "test://static-text"));
    const text = await client.readResource({ uri: "test://static-text" });
    assert.equal(text.contents[0].text, "This is the content of the static text resource.");
    const { resourceTemplates } = await client.listResourceTemplates();
    const templates = resourceTemplates.map(({ uriTemplate }) => uriTemplate);
    assert.ok(templates.includes("test://template/{id}/data") && templates.some((uri) => uri.startsWith("repl://")),
      `${templates}`);
    const filled = await client.readResource({ uri: "test://template/7/data" });
    assert.equal(JSON.parse(filled.contents[0].text).data, "Data for ID: 7");
    const { prompts } = await client.listPrompts();
    assert.ok(prompts.length > 5 && prompts.every(({ description }) => description.length > 0));
    const got = await client.getPrompt({ name: "test_prompt_with_arguments", arguments: { arg1: "x", arg2: "y" } });
    assert.equal(got.messages[0].content.text, "Prompt with arguments: arg1='x', arg2='y'");
    await assert.rejects(client.getPrompt({ name: "no_such_prompt" }));
    await assert.rejects(client.readResource({ uri: "test://no-such-resource" }));
  },

  async "arguments are completed"({ connection: { client } }) {
    const { completion } = await client.complete({
      ref: { type: "ref/prompt", name: "test_prompt_with_arguments" }, argument: { name: "arg1", value: "par" } });
    assert.deepEqual(completion.values, ["paris", "park", "party"]);
    const template = await client.complete({
      ref: { type: "ref/resource", uri: "test://template/{id}/data" }, argument: { name: "id", value: "12" } });
    assert.deepEqual(template.completion.values, ["12", "123"]);
  },

  async "who subscribed to a resource hears of it, and reads the new one"({ connection }) {
    const heard = [], uri = "test://watched-resource";
    connection.on("notifications/resources/updated", ({ params }) => { heard.push(params.uri); });
    const end = await connection.subscribe([uri]);
    const text = textOf(await ok(connection, "test_trigger_resource_change"));
    await eventually("resources/updated", () => (heard.length > 0 ? true : undefined));
    assert.deepEqual(heard, [uri]);
    const version = text.match(/version (\d+)/)[1];
    const { contents } = await connection.client.readResource({ uri });
    assert.match(contents[0].text, new RegExp(`version ${version}\\.`));
    await end();
  },

  async "who subscribed to a file of a session hears that it changed"({ connection }) {
    const heard = [], uri = "repl://watched/files/a.txt";
    await ok(connection, "upload_file", { path: "a.txt", content: "1", session_id: "watched" });
    connection.on("notifications/resources/updated", ({ params }) => { heard.push(params.uri); });
    const end = await connection.subscribe([uri]);
    await ok(connection, "upload_file", { path: "a.txt", content: "2", session_id: "watched" });
    await eventually("resources/updated", () => (heard.includes(uri) ? true : undefined));
    await end();
  },

  async "changes of lists are told"({ connection }) {
    const heard = new Set();
    for (const kind of ["tools", "prompts"])
      connection.on(`notifications/${kind}/list_changed`, () => { heard.add(kind); });
    const end = await connection.listenToLists();
    await ok(connection, "test_trigger_tool_change");
    await ok(connection, "test_trigger_prompt_change");
    await eventually("list_changed", () => (heard.size === 2 ? true : undefined));
    const { tools } = await connection.client.listTools(undefined, { cacheMode: "refresh" });
    assert.ok(tools.some(({ name }) => name === "test_extra_tool"));
    await end();
  },

  async "the server asks the client's model"({ connection }) {
    assert.equal(textOf(await ok(connection, "test_sampling", { prompt: "Hm?" })), "LLM response: heard: Hm?");
  },

  async "the server asks the user"({ connection }) {
    assert.match(textOf(await ok(connection, "test_elicitation", { message: "Who?" })), /action=accept.*ada@example/);
    assert.equal(textOf(await ok(connection, "test_input_required_result_multi_round")), "Ada likes red.");
  },

  async "the server asks several things at once"({ connection }) {
    assert.equal(textOf(await ok(connection, "test_input_required_result_multiple_inputs")),
      "heard: Generate a greeting Ada (1 roots)");
  },

  async "a prompt asks the user"({ connection: { client } }) {
    const { messages } = await client.getPrompt({ name: "test_input_required_result_prompt" });
    assert.match(messages[0].content.text, /^Use this context: /);
  },

  async "a client without tasks gets the result of a task's tool"({ connection }) {
    assert.equal(textOf(await ok(connection, "slow_compute", { seconds: 0.2, label: "job" })), "job: done after 0.2 s");
  },

  async "mistakes are told: errors of tools, and of the protocol"({ connection }) {
    const raised = await connection.call("execute_python", { code: "1 / 0" });
    assert.equal(raised.isError, true);
    assert.match(textOf(raised), /ZeroDivisionError/);
    const wrong = await connection.call("execute_python", { code: 7 });
    assert.equal(wrong.isError, true);
    assert.match(textOf(wrong), /code/);
    await assert.rejects(connection.call("no_such_tool"), (error) => error.code === -32602);
  },

  async "a session is kept, goes back, and branches"({ connection }) {
    const session = { session_id: "states" };
    await python(connection, "a = 'first'", session);
    const kept = await ok(connection, "checkpoint_session", { ...session, label: "before" });
    assert.equal(kept.structuredContent.label, "before");
    assert.ok(textOf(kept).includes(kept.structuredContent.id));
    await python(connection, "a = 'second'", session);
    const forked = await ok(connection, "fork_session", { ...session, new_session_id: "states-2" });
    assert.equal(forked.structuredContent.session_id, "states-2");
    await ok(connection, "rollback_session", { ...session, checkpoint: "before" });
    assert.match(await python(connection, "a", session), /'first'/);
    assert.match(await python(connection, "a", { session_id: "states-2" }), /'second'/);
    const { structuredContent: listed } = await ok(connection, "list_checkpoints", session);
    assert.ok(listed.checkpoints.some(({ label, id }) => label === "before" && id === kept.structuredContent.id));
    const refused = await connection.call("rollback_session", { ...session, checkpoint: "never made" });
    assert.equal(refused.isError, true);
    for (const session_id of ["states", "states-2"])
      await ok(connection, "destroy_session", { session_id });
  },

  async "a session is destroyed"({ connection }) {
    await python(connection, "a = 1", { session_id: "short-lived" });
    await ok(connection, "destroy_session", { session_id: "short-lived" });
    assert.doesNotMatch(textOf(await ok(connection, "list_sessions")), /short-lived/);
  },
};

const wanted = process.argv[2] ?? "";
const opened = new Map();
for (const driver of drivers.filter(({ name }) => name.includes(wanted))) {
  const state = { driver };
  test(`${driver.name}: it connects`, async () => {
    state.opened = await driver.open();
    opened.set(driver, state);
    state.connection = await state.opened.connect();
  });
  for (const [name, run] of Object.entries(scenarios))
    test(`${driver.name}: ${name}`, async () => {
      assert.ok(state.connection, "there is no connection");
      await run(state);
    });
  test(`${driver.name}: it closes`, async () => {
    await state.connection?.close();
    const code = await state.opened?.stop();
    opened.delete(driver);
    assert.ok(code === undefined || code === 0, `the server ended with code ${code}`);
  });
}

await main(async () => {
  for (const { opened: left } of opened.values()) await left?.stop();
});
