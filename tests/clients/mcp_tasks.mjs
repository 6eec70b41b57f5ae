// SPDX-License-Identifier: Apache-2.0
// Tasks, with the official client of the extension (ext-tasks) over HTTP: long calls that nobody runs an agent for.
import assert from "node:assert/strict";

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createTaskSessionFromClient, resultFromTaskOutcome } from "@modelcontextprotocol/ext-tasks/client";

import { startHttp } from "./program.mjs";
import { textOf } from "./server.mjs";
import { main, test } from "./tap.mjs";

const VERSION = "2026-07-28";
const clientInfo = { name: "snipara-sandbox-tests", version: "1.0.0" };
const clientCapabilities = { elicitation: { form: {} }, sampling: {}, extensions: { "io.modelcontextprotocol/tasks": {} } };

/** The messages of an answer, JSON or a stream of events. */
async function messagesOf(response) {
  const text = await response.text();
  if (!response.headers.get("content-type")?.startsWith("text/event-stream")) return [JSON.parse(text)];
  return text.split(/\r?\n\r?\n/).map((block) => block.match(/^data: ?(.*)$/m)?.[1]).filter(Boolean).map(JSON.parse);
}

let nextId = 0;
/** The extension's own requests travel by a POST of their own. */
async function rawDispatch(request, options) {
  const id = `task-${++nextId}`, { method, params = {} } = request;
  const name = params.taskId ?? params.name ?? params.uri;
  const response = await fetch(server.url, {
    method: "POST",
    headers: {
      "Content-Type": "application/json", Accept: "application/json, text/event-stream",
      "MCP-Protocol-Version": VERSION, "Mcp-Method": method, ...(name === undefined ? {} : { "Mcp-Name": name }),
    },
    body: JSON.stringify({ ...request, jsonrpc: "2.0", id }),
    signal: options?.signal,
  });
  const answer = (await messagesOf(response)).find((message) => message.id === id);
  assert.ok(answer, `no answer to ${method}: HTTP ${response.status}`);
  return answer;
}

const server = await startHttp();
const client = new Client(clientInfo, { capabilities: clientCapabilities, versionNegotiation: { mode: { pin: VERSION } } });
await client.connect(new StreamableHTTPClientTransport(server.url));
const asked = [];
const session = createTaskSessionFromClient(client, {
  endpointId: "tests",
  rawDispatch,
  v2RequestFraming: { protocolVersion: VERSION, clientInfo, clientCapabilities },
  onInputRequest: async (request) => {
    asked.push(request.params.message);
    return { action: "accept", content: { name: "Ada", confirm: true } };
  },
});

async function settled(tool, args = {}) {
  const execution = await session.callTool(tool, args);
  return { execution, ...(await execution.settle()) };
}

test("a tool that never becomes a task answers at once", async () => {
  const { execution, outcome } = await settled("greet", { name: "Ada" });
  assert.equal(execution.kind, "immediate");
  assert.equal(textOf(resultFromTaskOutcome(outcome)), "Hello, Ada!");
});

test("a task works, and ends with its result", async () => {
  const { execution, outcome, lastTask } = await settled("slow_compute", { seconds: 1, label: "job" });
  assert.notEqual(execution.kind, "immediate");
  assert.equal(textOf(resultFromTaskOutcome(outcome)), "job: done after 1 s");
  assert.equal(lastTask.status, "completed");
  assert.ok(lastTask.retentionMs > 0 && lastTask.suggestedPollIntervalMs > 0);
});

test("an error of the tool is the task's result", async () => {
  const { outcome } = await settled("failing_job");
  assert.equal(outcome.status, "completed");
  assert.equal(outcome.result.isError, true);
});

test("an error of the protocol fails the task", async () => {
  const { outcome } = await settled("protocol_error_job");
  assert.equal(outcome.status, "failed");
  assert.match(outcome.error.message, /broke down/);
});

test("a task is cancelled", async () => {
  const execution = await session.callTool("slow_compute", { seconds: 120, label: "long" });
  await execution.cancel();
  assert.equal((await execution.settle()).outcome.status, "cancelled");
});

test("a task asks the user, once and twice at a time", async () => {
  asked.length = 0;
  assert.equal(textOf(resultFromTaskOutcome((await settled("confirm_delete", { filename: "f" })).outcome)), "Deleted f.");
  assert.deepEqual(asked, ["Delete the file?"]);
  assert.match(textOf(resultFromTaskOutcome((await settled("multi_input")).outcome)), /by Ada/);
  assert.equal(asked.length, 3);
});

test("a call asks first, and becomes a task then", async () => {
  assert.match(textOf(resultFromTaskOutcome((await settled("test_tool_with_task")).outcome)), /Ada/);
});

await main(async () => {
  await session.close();
  await client.close();
  assert.equal(await server.stop(), 0);
});
