// SPDX-License-Identifier: Apache-2.0
// The Inspector's command line over standard input and HTTP, in both eras. Prints TAP.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { makePlace, startHttp } from "./program.mjs";
import { main, test } from "./tap.mjs";

const cli = fileURLToPath(new URL("node_modules/@modelcontextprotocol/inspector/clients/cli/build/index.js", import.meta.url));
const place = makePlace(), normal = makePlace({ fixtures: false });
const server = await startHttp();

/** What the Inspector prints for one method. */
async function inspect(target, era, method, options, from = place) {
  // It hands a server of standard input no variable that it was not told of.
  const env = Object.entries(from.env).filter(([name]) => /^(SNIPARA_|XDG_|LC_|HOME$)/.test(name))
    .flatMap(([name, value]) => ["-e", `${name}=${value}`]);
  const flags = ["--method", method, "--protocol-era", era, "--format", "json", "--quiet", ...options];
  const argv = target === "HTTP"
    ? [cli, "--server-url", server.url.href, "--transport", "http", ...flags]
    : [cli, ...flags, ...env, "--cwd", from.cwd, "--", from.command, ...from.args];
  // It would keep its catalog in the home directory.
  const { stdout } = await promisify(execFile)(process.execPath, argv,
    { env: from.env, timeout: 60000, maxBuffer: 16 << 20, cwd: from.cwd });
  const printed = JSON.parse(stdout);
  return printed.result ?? printed;
}

for (const target of ["stdio", "HTTP"])
  for (const era of ["legacy", "modern"]) {
    const run = (method, ...options) => inspect(target, era, method, options);

    test(`${target}, ${era}: tools/list`, async () => {
      const { tools } = await run("tools/list");
      assert.ok(tools.some(({ name }) => name === "execute_python"));
    });
    test(`${target}, ${era}: tools/call`, async () => {
      const result = await run("tools/call", "--tool-name", "execute_python", "--tool-args-json",
        JSON.stringify({ code: "print(6 * 7)", session_id: "inspector" }));
      assert.match(JSON.stringify(result), /42/);
    });
    test(`${target}, ${era}: resources/list`, async () => {
      const { resources } = await run("resources/list");
      assert.ok(resources.some(({ uri }) => uri === "test://static-text"));
    });
    test(`${target}, ${era}: resources/read`, async () => {
      assert.match(JSON.stringify(await run("resources/read", "--uri", "test://static-text")), /static text resource/);
    });
    test(`${target}, ${era}: prompts/list`, async () => {
      const { prompts } = await run("prompts/list");
      assert.ok(prompts.some(({ name }) => name === "test_simple_prompt"));
    });
  }

// --strict fails where a schema of a tool is one that some client can't take.
test("the schemas of a normal server suit every client", async () => {
  const { tools } = await inspect("stdio", "legacy", "tools/list", ["--strict"], normal);
  assert.ok(tools.length > 5);
});

await main(async () => {
  for (const { remove } of [place, normal]) remove();
  assert.equal(await server.stop(), 0);
});
