// SPDX-License-Identifier: Apache-2.0
// The mock server @copilotkit/aimock for tests/functional/model_server.py, with fixtures from a file or as a scenario says.
//
//      node model_server.mjs FIXTURES.json
//      node model_server.mjs SCENARIO.mjs [ARGUMENT]
//
// A scenario exports answer(request, place): `request` is a chat-completions request whatever the wire format was; `place`
// is {turn: results of tools so far, last: text of the last message, prompt: of the last user message, argument}. It returns
// what aimock answers: {content}, {toolCalls: [{name, arguments}]}, or {error: {message}, status}. A promise is waited for.
//
// Listens on a free port of loopback, prints one line, {"url", "pid"}, and ends with its standard input, so that no server
// outlives a test that was killed.
import { LLMock } from "@copilotkit/aimock";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [file, argument] = process.argv.slice(2);
const mock = new LLMock({ port: 0, host: "127.0.0.1", strict: true, journalMaxEntries: 0 });

function textOf(message) {
  const content = message?.content ?? "";
  return typeof content === "string" ? content : content.map((part) => part.text ?? "").join("");
}

function placeOf(request) {
  const users = request.messages.filter((message) => message.role === "user");
  const turn = request.messages.filter((message) => message.role === "tool").length;
  return { turn, last: textOf(request.messages.at(-1)), prompt: textOf(users.at(-1)), argument };
}

// Tokens as a real model would count them, roughly, so that budgets and costs have something to count.
function completed(request, response) {
  const tokens = (value) => Math.ceil(JSON.stringify(value ?? "").length / 4);
  if (response.error) return response;
  const usage = {
    prompt_tokens: tokens(request.messages),
    completion_tokens: tokens(response.content) + tokens(response.toolCalls),
  };
  const toolCalls = response.toolCalls?.map((call, index) => ({
    id: `call_${request.messages.length}_${index}`,
    ...call,
    arguments: typeof call.arguments === "string" ? call.arguments : JSON.stringify(call.arguments),
  }));
  return { ...response, ...(toolCalls && { toolCalls }), usage };
}

if (file.endsWith(".mjs")) {
  const { answer } = await import(pathToFileURL(resolve(file)));
  mock.on({ predicate: () => true }, async (request) => completed(request, await answer(request, placeOf(request))));
} else {
  mock.loadFixtureFile(file);
}
await mock.start();
process.stdout.write(JSON.stringify({ url: mock.url, pid: process.pid }) + "\n");
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
