// SPDX-License-Identifier: Apache-2.0
// A model for the tests: the mock server @copilotkit/aimock (OpenAI's and Anthropic's wire formats), answering as a scenario
// says.
//
//      node model.mjs SCENARIO.mjs [ARGUMENT]
//
// The scenario exports answer(request, place): `request` is a chat-completions request whatever the wire format was; `place`
// is {turn: results of tools so far, last: text of the last message, prompt: of the last user message, argument}. It returns
// what aimock answers: {content}, {toolCalls: [{name, arguments}]}, or {error: {message}, status}. A promise is waited for.
// Prints one line, {"url", "pid"}; answers GET /__aimock/journal with the requests; ends with its standard input.
import { LLMock } from "@copilotkit/aimock";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [file, argument] = process.argv.slice(2);
const { answer } = await import(pathToFileURL(resolve(file)));

function textOf(message) {
  const content = message?.content ?? "";
  return typeof content === "string" ? content : content.map((part) => part.text ?? "").join("");
}

function place(request) {
  const users = request.messages.filter((message) => message.role === "user");
  const turn = request.messages.filter((message) => message.role === "tool").length;
  return { turn, last: textOf(request.messages.at(-1)), prompt: textOf(users.at(-1)), argument };
}

// Tokens as a real model would count them, roughly, so that budgets and costs have something to count.
function withUsage(request, response) {
  const bytes = (value) => Math.ceil(JSON.stringify(value ?? "").length / 4);
  if (response.error) return response;
  const usage = {
    prompt_tokens: bytes(request.messages),
    completion_tokens: bytes(response.content) + bytes(response.toolCalls),
  };
  const called = response.toolCalls?.map((call, index) => ({
    id: `call_${request.messages.length}_${index}`,
    ...call,
    arguments: typeof call.arguments === "string" ? call.arguments : JSON.stringify(call.arguments),
  }));
  return { ...response, ...(called && { toolCalls: called }), usage };
}

const mock = new LLMock({ port: 0, host: "127.0.0.1", logLevel: "silent" });
mock.on({ predicate: () => true }, async (request) => withUsage(request, await answer(request, place(request))));
await mock.start();
process.stdout.write(`${JSON.stringify({ url: mock.url, pid: process.pid })}\n`);
process.stdin.resume();
process.stdin.on("end", async () => {
  await mock.stop();
  process.exit(0);
});
