// SPDX-License-Identifier: Apache-2.0
// Names that code expects beside the language's own: console, process, require, encodings, a clock.
'use strict';

// What the user's code makes of the global names is not our business.
const { Array, Error, JSON, Map, Object, Promise, String, TypeError, Uint8Array } = globalThis;

const { format, inspect } = require('util');
const { clean } = require('./text.js');
const { TextEncoder, TextDecoder, atob, btoa } = require('./encoding.js');
const { fs } = require('./fs.js');

const INSPECT = { depth: 4 };

function makeConsole() {
  let indent = '';
  const counts = new Map();
  const times = new Map();
  const print = (fd) => (...values) => {
    const shown = values.length === 1 && typeof values[0] !== 'string' ? inspect(values[0], INSPECT) : format(...values);
    host.write(fd, `${indent}${indent === '' ? clean(shown) : clean(shown).replaceAll('\n', `\n${indent}`)}\n`);
  };
  const out = print(1);
  const err = print(2);
  const passed = (label) => `${label}: ${(host.now() - times.get(label)).toFixed(3)}ms`;
  return {
    log: out, info: out, debug: out, error: err, warn: err,
    trace: (...values) => err(`Trace: ${format(...values)}\n${new Error().stack}`),
    dir: (value, options) => out(inspect(value, options)),
    table: (value) => out(value),
    assert: (condition, ...values) => {
      if (!condition) err(values.length > 0 ? `Assertion failed: ${format(...values)}` : 'Assertion failed');
    },
    group: (...values) => {
      if (values.length > 0) out(...values);
      indent += '  ';
    },
    groupEnd: () => {
      indent = indent.slice(2);
    },
    count: (label = 'default') => {
      counts.set(label, (counts.get(label) ?? 0) + 1);
      out(`${label}: ${counts.get(label)}`);
    },
    countReset: (label = 'default') => void counts.delete(label),
    time: (label = 'default') => void times.set(label, host.now()),
    timeLog: (label = 'default', ...values) => {
      if (times.has(label)) out(passed(label), ...values);
    },
    timeEnd: (label = 'default') => {
      if (times.has(label)) out(passed(label));
      times.delete(label);
    },
  };
}

function makeProcess(session) {
  const stream = (fd) => ({ fd, isTTY: false, write: (text) => (host.write(fd, clean(String(text))), true) });
  return {
    argv: ['quickjs'], env: { HOME: '/tmp', LANG: 'C.UTF-8', TMPDIR: '/tmp' }, platform: 'wasi', arch: 'wasm32', pid: 1,
    version: host.version, versions: { quickjs: host.version }, stdout: stream(1), stderr: stream(2),
    exit: (code) => session.exit(code),
    cwd: () => host.cwd(),
    chdir: (path) => host.chdir(String(path)),
    uptime: () => host.now() / 1000,
    nextTick: (run, ...values) => void Promise.resolve().then(() => run(...values)),
  };
}

// Modules of the workspace as Node loads them, and what few of Node's own there are.
function makeRequire(session) {
  const cache = new Map();
  const builtin = { fs, util: { inspect, format }, process: null };
  const find = (path) => {
    for (const suffix of ['', '.js', '.json', '/index.js']) {
      if (fs.existsSync(path + suffix) && fs.statSync(path + suffix).isFile()) return path + suffix;
    }
    return null;
  };
  const requireFrom = (directory) => (name) => {
    const known = String(name).replace(/^node:/, '');
    session.required = true;
    if (known === 'process') return session.globals.process;
    if (Object.hasOwn(builtin, known)) return builtin[known];
    const isPath = /^\.{0,2}\//.test(name);
    const path = isPath ? find(name.startsWith('/') ? name : `${directory}/${name}`) : null;
    if (path === null) {
      const error = new Error(`Cannot find module '${name}': there are fs, util and process, and files of the workspace`);
      error.code = 'MODULE_NOT_FOUND';
      throw error;
    }
    if (cache.has(path)) return cache.get(path).exports;
    const text = fs.readFileSync(path, 'utf8');
    const made = { exports: {}, id: path, filename: path };
    session.variables.modules.add(made.exports);
    if (path.endsWith('.json')) return JSON.parse(text);
    cache.set(path, made);
    const own = path.slice(0, path.lastIndexOf('/'));
    host.evaluate(`(function (exports, require, module, __filename, __dirname) {${text}\n})`, path, false)
      .call(made.exports, made.exports, requireFrom(own), made, path, own);
    if (made.exports !== null && typeof made.exports === 'object') session.variables.modules.add(made.exports);
    return made.exports;
  };
  session.variables.modules.add(fs).add(builtin.util);
  return requireFrom('/work');
}

const crypto = {
  getRandomValues(array) {
    const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
    bytes.set(new Uint8Array(host.random(bytes.length)));
    return array;
  },
  randomUUID() {
    const bytes = new Uint8Array(host.random(16));
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
    return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
  },
};

function queueMicrotask(run) {
  if (typeof run !== 'function') throw new TypeError('queueMicrotask needs a function');
  Promise.resolve().then(() => run());
}

// Names and values for the global object.
function globals(session) {
  return {
    console: makeConsole(),
    process: makeProcess(session),
    require: makeRequire(session),
    performance: { now: () => host.now() - (session.started ?? 0), timeOrigin: 0 },
    global: globalThis,
    crypto, queueMicrotask, TextEncoder, TextDecoder, atob, btoa,
  };
}

module.exports = { globals };
