// SPDX-License-Identifier: Apache-2.0
// A peer for bench/mcp_http.py: a server made with the official SDK, whose tool does nothing. What it takes is what the
// protocol costs there, without any sandbox. Prints its address.
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";

import { McpServer } from "../tests/clients/node_modules/@modelcontextprotocol/sdk/dist/esm/server/mcp.js";
import { StreamableHTTPServerTransport } from "../tests/clients/node_modules/@modelcontextprotocol/sdk/dist/esm/server/streamableHttp.js";
import { z } from "../tests/clients/node_modules/zod/index.js";

const server = new McpServer({ name: "peer", version: "1" });
server.registerTool("execute_python",
  { description: "Does nothing.", inputSchema: { code: z.string(), session_id: z.string() } },
  async () => ({ content: [{ type: "text", text: "42" }] }));
const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, enableJsonResponse: true });
await server.connect(transport);

const http = createServer((request, response) => transport.handleRequest(request, response));
http.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${http.address().port}/mcp`));
