// SPDX-License-Identifier: Apache-2.0
// The mock server @copilotkit/aimock with fixtures from a file, for tests/functional/model_server.py.
//
//      node model_server.mjs FIXTURES.json
//
// Listens on a free port of loopback, prints one line, {"url", "pid"}, and ends with its standard input, so that no server
// outlives a test that was killed.
import { LLMock } from "@copilotkit/aimock";

const mock = new LLMock({ port: 0, host: "127.0.0.1", strict: true, journalMaxEntries: 0 });
mock.loadFixtureFile(process.argv[2]);
await mock.start();
process.stdout.write(JSON.stringify({ url: mock.url, pid: process.pid }) + "\n");
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
