// SPDX-License-Identifier: Apache-2.0
// One shape for the clients of both SDKs, over both transports and in each mode of negotiation, so that the same tests
// drive them all.
import { Client as Client2, StreamableHTTPClientTransport as Http2 } from "@modelcontextprotocol/client";
import { StdioClientTransport as Stdio2 } from "@modelcontextprotocol/client/stdio";
import { Client as Client1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as Stdio1 } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport as Http1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema, LoggingMessageNotificationSchema,
  PromptListChangedNotificationSchema, ResourceUpdatedNotificationSchema, ToolListChangedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";

import { makePlace, startHttp } from "./program.mjs";

const info = { name: "snipara-sandbox-tests", version: "1.0.0" };
const capabilities = { sampling: {}, elicitation: { form: {} }, roots: {} };
const schemas = {
  "sampling/createMessage": CreateMessageRequestSchema,
  "elicitation/create": ElicitRequestSchema,
  "roots/list": ListRootsRequestSchema,
  "notifications/message": LoggingMessageNotificationSchema,
  "notifications/prompts/list_changed": PromptListChangedNotificationSchema,
  "notifications/resources/updated": ResourceUpdatedNotificationSchema,
  "notifications/tools/list_changed": ToolListChangedNotificationSchema,
};

/** What a client does when it is asked. */
const answers = {
  "sampling/createMessage": async ({ params }) => ({
    role: "assistant", model: "test-model", stopReason: "endTurn",
    content: { type: "text", text: `heard: ${params.messages[0].content.text}` },
  }),
  "elicitation/create": async () => ({
    action: "accept",
    content: { name: "Ada", username: "ada", email: "ada@example.com", confirm: true, ok: true, color: "red",
      context: "tests" },
  }),
  "roots/list": async () => ({ roots: [{ uri: "file:///tmp/root", name: "root" }] }),
};

class Connection {
  constructor(version, era, client, transport) {
    Object.assign(this, { version, era, client, transport });
    for (const [method, handler] of Object.entries(answers))
      client.setRequestHandler(version === 1 ? schemas[method] : method, handler);
  }

  on(method, handler) {
    this.client.setNotificationHandler(this.version === 1 ? schemas[method] : method, handler);
  }

  call(name, args = {}, options = undefined) {
    const params = { name, arguments: args };
    return this.version === 1 ? this.client.callTool(params, undefined, options) : this.client.callTool(params, options);
  }

  /** Hears of changes of `uris`; a function that ends it. */
  async subscribe(uris) {
    if (this.era === "modern") {
      const subscription = await this.client.listen({ resourceSubscriptions: uris });
      return () => subscription.close();
    }
    for (const uri of uris) await this.client.subscribeResource({ uri });
    return async () => {
      for (const uri of uris) await this.client.unsubscribeResource({ uri });
    };
  }

  /** Hears of changes of lists; a function that ends it. */
  async listenToLists() {
    if (this.era !== "modern") return async () => {};
    const subscription = await this.client.listen({ toolsListChanged: true, promptsListChanged: true });
    return () => subscription.close();
  }

  async close() {
    if (this.era === "legacy" && this.transport.terminateSession !== undefined) await this.transport.terminateSession();
    await this.client.close();
  }
}

function makeClient(version, mode) {
  return version === 1 ? new Client1(info, { capabilities })
    : new Client2(info, { capabilities, versionNegotiation: { mode } });
}

async function connect(version, mode, transport) {
  const client = makeClient(version, mode);
  const era = version === 2 && mode !== "legacy" ? "modern" : "legacy";
  const connection = new Connection(version, era, client, transport);
  await client.connect(transport);
  return connection;
}

const modes = [[1, "legacy"], [2, "legacy"], [2, "auto"], [2, { pin: "2026-07-28" }]];
const nameOf = (version, mode) => `SDK v${version}${version === 1 ? "" : `, ${mode.pin ?? mode}`}`;

/** For each way to connect: its name, and what opens a server with `connect()` and `stop()`. */
export const drivers = modes.flatMap(([version, mode]) => [
  {
    name: `${nameOf(version, mode)}, stdio`,
    shared: false, // each connection is a server of its own
    async open() {
      const place = makePlace();
      const Transport = version === 1 ? Stdio1 : Stdio2;
      return {
        connect: () => connect(version, mode, new Transport({ ...place, stderr: "inherit" })),
        stop: async () => place.remove(),
      };
    },
  },
  {
    name: `${nameOf(version, mode)}, HTTP`,
    shared: true,
    async open() {
      const server = await startHttp();
      const Transport = version === 1 ? Http1 : Http2;
      return { connect: () => connect(version, mode, new Transport(server.url)), stop: () => server.stop(), server };
    },
  },
]);
