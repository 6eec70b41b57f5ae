// SPDX-License-Identifier: Apache-2.0
// How long a tool call takes over MCP stdio, seen from the official TypeScript client, its own overhead included.
// Prints one JSON object. The program is $SNIPARA_SANDBOX. Needs `npm ci` in tests/clients.
//   node bench/mcp_latency.mjs [CALLS [FRESH_CALLS]]
import { performance } from "node:perf_hooks";

import { connect } from "../tests/clients/server.mjs";

const calls = Number(process.argv[2] ?? 2000);
const freshCalls = Number(process.argv[3] ?? 500);

const { client } = await connect();

async function timed(name, args) {
  const began = performance.now();
  const result = await client.callTool({ name, arguments: args });
  if (result.isError) throw new Error(JSON.stringify(result.content));
  return (performance.now() - began) * 1000;
}

function percentile(sorted, part) {
  return Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] * 10) / 10;
}

async function warm() {
  const times = [];
  for (let i = 0; i < 200; i++) await timed("execute_python", { code: "x=1" });
  for (let i = 0; i < calls; i++) times.push(await timed("execute_python", { code: "x=1" }));
  times.sort((a, b) => a - b);
  return { warm_calls: calls, warm_median_us: percentile(times, 0.5), warm_p99_us: percentile(times, 0.99) };
}

async function fresh() {
  for (let i = 0; i < 20; i++) await timed("execute", { code: "x=1" });
  const began = performance.now();
  for (let i = 0; i < freshCalls; i++) await timed("execute", { code: "x=1" });
  const seconds = (performance.now() - began) / 1000;
  return { fresh_calls: freshCalls, fresh_calls_per_s: Math.round(freshCalls / seconds) };
}

console.log(JSON.stringify({ client: "typescript-sdk", ...(await warm()), ...(await fresh()) }));
await client.close();
