// SPDX-License-Identifier: Apache-2.0
// The program under test with the conformance fixtures, in a project and a home of its own, over both ways to it. The
// program is $SNIPARA_SANDBOX, its build tree $SNIPARA_SANDBOX_BUILD_ROOT.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";

import { program } from "./server.mjs";

const buildRoot = process.env.SNIPARA_SANDBOX_BUILD_ROOT;

/** A directory for one server: what to start, with which arguments, in which environment. */
export function makePlace({ fixtures = true } = {}) {
  const directory = mkdtempSync(join(tmpdir(), "sbx-client-"));
  const [home, project] = ["home", "project"].map((name) => join(directory, name));
  for (const path of [home, project, join(project, ".git")]) mkdirSync(path, { mode: 0o700 });
  const config = join(project, "test.cfg");
  const plugin = resolve(buildRoot ?? "", "tests/conformance/context-conformance.so");
  // On a busy machine, code that was interrupted may need its time to come back.
  const settings = 'interrupt_grace = "1m";\n';
  writeFileSync(config, settings + (fixtures ? `plugins = ( { name = "conformance"; path = "${plugin}"; critical = true; } );\n` : ""),
    { mode: 0o600 });
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(SNIPARA_|RLM_|XDG_)/.test(name)));
  if (buildRoot !== undefined) env.SNIPARA_SANDBOX_BUILD_ROOT = buildRoot;
  Object.assign(env, { HOME: home, XDG_CONFIG_HOME: join(home, "config"), XDG_STATE_HOME: join(home, "state"),
    XDG_RUNTIME_DIR: join(home, "run"), LC_ALL: "C.UTF-8" });
  return {
    command: program,
    args: ["mcp-serve", "--config", config],
    cwd: project,
    env,
    remove: () => rmSync(directory, { recursive: true, force: true }),
  };
}

/** Starts an HTTP server; `url` is where it listens. */
export async function startHttp() {
  const place = makePlace();
  const child = spawn(place.command, [...place.args, "--http", "--listen", "127.0.0.1:0"],
    { cwd: place.cwd, env: place.env, stdio: ["ignore", "pipe", "inherit"] });
  const exit = once(child, "exit");
  const line = await Promise.race([
    once(createInterface({ input: child.stdout }), "line").then(([text]) => text),
    exit.then(([code, signal]) => { throw new Error(`the server ended before it listened: ${code ?? signal}`); }),
  ]);
  return {
    url: new URL(line),
    pid: child.pid,
    async stop() {
      if (child.exitCode === null && child.signalCode === null) child.kill("SIGTERM");
      const [code] = await exit;
      place.remove();
      return code;
    },
  };
}
