// SPDX-License-Identifier: Apache-2.0
// Reads export requests, a line each, with the official protobuf definitions (@opentelemetry/otlp-transformer): what
// they do not know, or know otherwise, shows as a difference. Prints the number of spans. Argument: where node_modules
// is.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import assert from "node:assert/strict";

const require = createRequire(`${process.argv[2]}/`);
const root = require("@opentelemetry/otlp-transformer/build/src/generated/root.js");
const Request = root.opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest;
const ids = new Set(["traceId", "spanId", "parentSpanId"]);

// OTLP's own rule: ids are hexadecimal where the JSON of protobuf has base64.
function withBytes(value) {
  if (Array.isArray(value)) return value.map(withBytes);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) =>
    [key, ids.has(key) ? Buffer.from(inner, "hex") : withBytes(inner)]));
}

function withHex(value) {
  if (Array.isArray(value)) return value.map(withHex);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) =>
    [key, ids.has(key) ? Buffer.from(inner).toString("hex") : withHex(inner)]));
}

let spans = 0;
for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  const message = Request.fromObject(withBytes(request));
  assert.equal(Request.verify(message), null);
  const back = Request.decode(Request.encode(message).finish());
  assert.deepEqual(withHex(Request.toObject(back, { longs: String, enums: Number, bytes: Buffer })), request);
  spans += request.resourceSpans.flatMap((one) => one.scopeSpans).flatMap((one) => one.spans).length;
}
console.log(spans);
