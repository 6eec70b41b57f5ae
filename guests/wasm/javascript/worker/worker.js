// SPDX-License-Identifier: Apache-2.0
// The worker's entry point, called once, when the image is made. C calls `request` for each frame of the host's.
// text.js, variables.js, errors.js and tools.js are the Node worker's; what they ask of Node is util.js and this file.
'use strict';

const { Map, Object } = globalThis;

const FRAMES = {
  HELLO: 0x01, EXEC: 0x02, GET: 0x03, SET: 0x04, CLEAR: 0x05, FILE_READ: 0x06, FILE_WRITE: 0x07, FILE_LIST: 0x08,
  TOOL_RESULT: 0x0b, READY: 0x81, DISPLAY: 0x84, TOOL_CALL: 0x85, RESULT: 0x86,
};
const PREFIX = 4;

// Text of the JSON part, and the rest as a buffer, of a payload that has both.
function split(payload) {
  const size = new DataView(payload).getUint32(0, true);
  return [host.decode(payload, PREFIX, PREFIX + size), payload.slice(PREFIX + size)];
}

// As the Node worker's: both parts as text.
function splitText(payload) {
  const size = new DataView(payload).getUint32(0, true);
  return [host.decode(payload, PREFIX, PREFIX + size), host.decode(payload, PREFIX + size, payload.byteLength)];
}

const paths = { sep: '/', dirname: (path) => path.slice(0, path.lastIndexOf('/')) || '/' };
const loaded = new Map([
  ['path', paths],
  ['./frames.js', { ...FRAMES, split: splitText }],
]);

function load(name) {
  if (loaded.has(name)) return loaded.get(name);
  const file = name === 'util' ? 'util.js' : name.replace('./', '');
  const part = { exports: {} };
  host.load(file)(load, part, host, `/usr/lib/sbx/javascript/${file}`);
  loaded.set(name, part.exports);
  return part.exports;
}

// Text that is ASCII stands for its bytes here; the Node worker makes them a Buffer.
Object.defineProperty(globalThis, 'Buffer', { value: { from: (text) => text }, configurable: true });
const { dumps, loads, describe } = load('./text.js');
const { Session } = load('./session.js');
const { Executor } = load('./execute.js');
const files = load('./files.js');
delete globalThis.Buffer;

const FILE_MAX = 64 << 20;
const session = new Session();
const executor = new Executor(session);

function names() {
  session.variables.told = session.variables.names();
  return { names: session.variables.told };
}

const handlers = new Map([
  [FRAMES.HELLO, () => {
    session.start();
    host.send(FRAMES.READY, dumps({
      protocol: 1, runtime: 'javascript', version: host.version, implementation: 'quickjs',
      features: ['display', 'files', 'tools'],
    }));
  }],
  [FRAMES.EXEC, (payload) => {
    const [header, source] = splitText(payload);
    executor.execute(loads(header), source);
  }],
  [FRAMES.GET, (payload) => {
    const request = whole(payload);
    const wanted = Array.isArray(request.names) ? request.names : null;
    executor.simple(request, () => [session.variables.tell(wanted)]);
  }],
  [FRAMES.SET, (payload) => {
    const request = whole(payload);
    executor.simple(request, () => {
      session.variables.set(request.name, request.value);
      return [{ repr: describe(request.value), ...names() }];
    });
  }],
  [FRAMES.CLEAR, (payload) => {
    executor.simple(whole(payload), () => {
      session.clear();
      return [names()];
    });
  }],
  [FRAMES.FILE_READ, (payload) => {
    const request = whole(payload);
    executor.simple(request, () => {
      const content = files.read(request.path, Math.min(request.max_bytes, FILE_MAX));
      return [{ size: content.byteLength }, content];
    });
  }],
  [FRAMES.FILE_WRITE, (payload) => {
    const [header, content] = split(payload);
    const request = loads(header);
    executor.simple(request, () => {
      files.write(request.path, content);
      return [{ size: content.byteLength }];
    });
  }],
  [FRAMES.FILE_LIST, (payload) => {
    const request = whole(payload);
    executor.simple(request, () => [files.list(request.path)]);
  }],
]);

const { Math, Array, DataView } = globalThis;

function whole(payload) {
  return loads(host.decode(payload, 0, payload.byteLength));
}

module.exports = {
  request(type, payload) {
    const handle = handlers.get(type);
    // An answer to a call that was given up.
    if (handle !== undefined) handle(payload);
    else if (type !== FRAMES.TOOL_RESULT) throw new Error(`a frame of type ${type}`);
  },
  stopped: (isInterrupt, error) => executor.stopped(isInterrupt, error),
  rehearsed: () => session.forget(),
  rejected: (promise, reason, isHandled) => executor.rejected(promise, reason, isHandled),
};
