// SPDX-License-Identifier: Apache-2.0
// Starts the server under test for the official client. The program is $SNIPARA_SANDBOX.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

export const program = process.env.SNIPARA_SANDBOX ?? "snipara-sandbox";

// Sessions that are stored are this test's own, and those of its last run are not there.
const state = mkdtempSync(join(tmpdir(), "sbx-state-"));
process.on("exit", () => rmSync(state, { recursive: true, force: true }));

/** A connected client and its transport. The SDK would hand the server but a few variables of the environment. */
export async function connect() {
  const transport = new StdioClientTransport({
    command: program,
    args: ["mcp-serve"],
    env: { ...process.env, XDG_STATE_HOME: state },
    stderr: "inherit",
  });
  const client = new Client({ name: "snipara-sandbox-tests", version: "1.0.0" });
  await client.connect(transport);
  return { client, transport };
}

/** The text of a tool result. */
export function textOf(result) {
  return result.content
    .filter((block) => block.type === "text")
    .map((block) => block.text)
    .join("\n");
}

/** Ids of a process and of everything below it. */
export function processTree(root) {
  const parents = new Map();
  for (const name of readdirSync("/proc").filter((entry) => /^\d+$/.test(entry))) {
    try {
      const stat = readFileSync(`/proc/${name}/stat`, "latin1");
      parents.set(Number(name), Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]));
    } catch {
      // it ended meanwhile
    }
  }
  const tree = [root];
  for (const pid of tree) for (const [child, parent] of parents) if (parent === pid) tree.push(child);
  return tree;
}

/** Those of `pids` that are alive (a zombie is not). */
export function alive(pids) {
  return pids.filter((pid) => {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
      return stat.slice(stat.lastIndexOf(")") + 2)[0] !== "Z";
    } catch {
      return false;
    }
  });
}
