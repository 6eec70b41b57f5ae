// SPDX-License-Identifier: Apache-2.0
// Portable states of a session: what it holds is told in parts, and taken up in another guest. docs/guest-protocol.md
// has the frames. Part 0 is the index, the JSON object that says what the others are.
'use strict';

// What the user's code makes of the global names is not our business.
const {
  Array, Buffer, Date, Infinity, Map, Number, Object, RangeError, Set, String, TypeError, process,
} = globalThis;

const v8 = require('v8');
const { createHash } = require('crypto');
const { STATE, encode, split, writeAll } = require('./frames.js');
const { clean, dumps, loads } = require('./text.js');
const { Graph, Functions } = require('./states_graph.js');
const { Builder } = require('./states_build.js');
const { Known } = require('./states_known.js');
const files = require('./states_files.js');

const { failure } = files;
const FORMAT = 'snipara-sandbox state';
const VERSION = 1;
const LISTED_MAX = 200;
const PARTS_MAX = 4000; // the host takes 4096
const PIECE = 1 << 20;
const TABLE = 1; // the part with the variables
// What goes on in a session that does nothing.
const IDLE = new Set(['MessagePort', 'PipeWrap', 'TTYWrap', 'TCPSocketWrap', 'Immediate', 'CloseReq']);

function listed(items) {
  const bounded = (text) => clean(String(text)).slice(0, 300);
  return items.slice(0, LISTED_MAX).map(({ name, type, reason }) => (
    { name: bounded(name), type: bounded(type), reason: bounded(reason) }));
}

class Parts {
  constructor(max) {
    Object.assign(this, { max, size: 0, list: [null, null] });
  }

  charge(size) {
    this.size += size;
    if (this.size <= this.max) return;
    throw failure('EFBIG', `The session holds more than the ${this.max} bytes that a state may have`);
  }

  add(bytes) {
    if (this.list.length >= PARTS_MAX) {
      throw failure('EFBIG', `The session has more than ${PARTS_MAX} large files or buffers`);
    }
    return this.list.push(bytes) - 1;
  }
}

class States {
  constructor(session) {
    this.session = session;
    this.functions = new Functions();
    this.common = null;
    this.directories = null;
    this.given = [];
    this.isOpen = false; // the last part goes on
    this.environment = { ...process.env };
  }

  // What every session has; looked up when it is first needed.
  get known() {
    this.common ??= new Known(this.session.variables.own, this.session.workspace);
    return this.common;
  }

  // ---- saving ----

  // [what the answer says, the parts], which nothing was sent of.
  save(request) {
    const parts = new Parts(request.max_bytes > 0 ? request.max_bytes : Number.MAX_SAFE_INTEGER);
    const deadline = request.max_ms > 0 ? Date.now() + request.max_ms : Infinity;
    const tick = () => {
      if (Date.now() > deadline) throw failure('ETIMEDOUT', 'Telling what the session holds took longer than it may');
    };
    const unsaved = [];
    let told;
    try {
      told = this.variables(parts, unsaved, tick);
    } finally {
      this.functions.scopes.close();
    }
    tick();
    const found = this.files(parts, unsaved);
    this.background(unsaved);
    const index = {
      format: FORMAT, version: VERSION, language: 'node', node: process.versions.node,
      files: found.told, pack: found.pack, unsaved: listed(unsaved), cwd: this.directory(), environment: this.changes(),
    };
    return this.answer(request, index, told, found, parts);
  }

  answer(request, index, told, found, parts) {
    const hash = createHash('sha256').update(dumps(index));
    for (const bytes of parts.list.slice(TABLE)) hash.update(`${bytes.length}:`).update(bytes);
    const digest = hash.digest('hex').slice(0, 32);
    parts.list[0] = dumps(index);
    const answer = {
      variables: told.count, names: this.session.variables.names(), unsaved: index.unsaved,
      files: { count: found.count, bytes: found.bytes }, digest,
    };
    if (digest !== request.digest) return [answer, parts.list];
    return [{ ...answer, unchanged: true }, []];
  }

  // Names and values, those of modules as well.
  * entries() {
    const { variables } = this.session;
    for (const name of Object.getOwnPropertyNames(globalThis)) {
      if (!variables.isName(name)) continue;
      const held = Object.getOwnPropertyDescriptor(globalThis, name);
      if (held.enumerable && 'value' in held) yield [name, held.value];
    }
  }

  variables(parts, unsaved, tick) {
    this.known.lookAtModules();
    const graph = new Graph(this.known, this.functions, { tick, charge: (size) => parts.charge(size) });
    const all = [...this.entries()].map(([name, value]) => [name, graph.value(value, -1), value]);
    graph.run();
    const reasons = graph.spread();
    const roots = [];
    for (const [name, told, value] of all) {
      const why = Array.isArray(told) ? reasons.get(told[0]) : undefined;
      if (why === undefined) roots.push([name, told, this.session.variables.isModule(value)]);
      else unsaved.push({ name, type: graph.title(value), reason: why });
    }
    for (const number of reasons.keys()) graph.nodes[number] = null;
    const buffers = new Map();
    for (const [number, bytes] of graph.buffers) {
      if (graph.nodes[number] !== null) buffers.set(number, parts.add(bytes));
    }
    const table = v8.serialize({ nodes: graph.nodes, roots, parts: buffers });
    parts.list[TABLE] = table;
    return { count: roots.filter(([, , isModule]) => !isModule).length };
  }

  own() {
    const { workspace, isOurs } = this.session;
    this.directories ??= files.ownDirectories(workspace, isOurs);
    return this.directories;
  }

  files(parts, unsaved) {
    const { own, others } = this.own();
    const gathering = new files.Gathering(parts, (size) => parts.charge(size), unsaved);
    for (const name of others) {
      unsaved.push({ name, type: 'directory', reason: 'it is not this session\'s alone, and stays where it is' });
    }
    const told = own.map(([name, directory]) => [name, gathering.directory(directory)]);
    return { told, pack: gathering.close(), count: gathering.count, bytes: gathering.bytes };
  }

  // Timers, servers and the like.
  background(unsaved) {
    const counts = new Map();
    for (const kind of process.getActiveResourcesInfo?.() ?? []) {
      if (!IDLE.has(kind)) counts.set(kind, (counts.get(kind) ?? 0) + 1);
    }
    for (const [kind, count] of counts) {
      unsaved.push({ name: '(background)', type: kind, reason: `what goes on is not saved: ${count} of these` });
    }
  }

  directory() {
    const { workspace } = this.session;
    const now = process.cwd();
    if (now === workspace || now.startsWith(`${workspace}/`)) return ['workspace', now.slice(workspace.length + 1)];
    return ['', now];
  }

  changes() {
    const now = process.env;
    const changed = Object.keys(now).filter((name) => this.environment[name] !== now[name]);
    const unset = Object.keys(this.environment).filter((name) => now[name] === undefined);
    return { set: changed.map((name) => [name, now[name]]), unset };
  }

  send(channel, parts) {
    for (const [number, bytes] of parts.entries()) {
      let at = 0;
      do {
        const piece = bytes.subarray(at, at + PIECE);
        at += PIECE;
        writeAll(channel.writeFd, encode(STATE, dumps({ part: number, last: at >= bytes.length }), piece));
      } while (at < bytes.length);
    }
  }

  // ---- restoring ----

  take(payload) {
    const [header, blob] = split(payload);
    const told = loads(header);
    const next = this.given.length - (this.isOpen ? 1 : 0);
    if (told.part !== next) throw new TypeError('a part of a state out of its order');
    if (!this.isOpen) this.given.push([]);
    this.given[this.given.length - 1].push(Buffer.from(blob));
    this.isOpen = told.last !== true;
  }

  // What was given: {index, part}. Nothing has changed yet.
  open(request) {
    const given = this.given.map((pieces) => (pieces.length === 1 ? pieces[0] : Buffer.concat(pieces)));
    this.given = [];
    if (this.isOpen || given.length !== request.parts || given.length < 2) throw new TypeError('parts are missing');
    const index = loads(given[0]);
    if (index.format !== FORMAT || !Number.isInteger(index.version)) {
      throw new TypeError('its index is of something else');
    }
    if (index.version > VERSION) {
      throw failure('EPROTONOSUPPORT', `This state has version ${index.version}; this worker knows ${VERSION}`);
    }
    if (index.language !== 'node') throw new TypeError(`it is one of ${String(index.language).slice(0, 40)}`);
    if (!this.session.fresh) throw failure('EBUSY', 'The session has run something already');
    const table = v8.deserialize(given[TABLE]);
    if (!Array.isArray(table.roots) || !(table.parts instanceof Map)) throw new TypeError('its table is none');
    return { index, table, part: (number, size) => this.part(given, number, 0, size) };
  }

  part(given, number, offset, size) {
    if (!Number.isInteger(number) || number <= TABLE || given[number] === undefined || !(offset >= 0 && size >= 0) ||
      offset + size > given[number].length) throw new RangeError('a part is shorter than what is in it');
    return given[number].subarray(offset, offset + size);
  }

  // Paths of modules that are to be imported before the rest.
  imports(table) {
    return table.nodes.filter((node) => Array.isArray(node) && node[0] === 'import').map((node) => node[1]);
  }

  // What can't be made is told; the rest of the answer.
  build({ index, table, part }, imported) {
    const { session } = this;
    const missing = [...index.unsaved];
    const compile = (text) => session.compile(text, '<restored>').runInThisContext({ displayErrors: false });
    const builder = new Builder(table, this.known, { compile, part, imported });
    const content = (size, number, offset) => (
      size === 0 ? Buffer.alloc(0) : part(number || index.pack, offset + size).subarray(offset));
    files.restore(this.own().own, index.files, content, missing);
    this.settle(index, missing);
    builder.run();
    let count = 0;
    for (const [name, told, isModule] of table.roots) {
      if (this.bring(builder, name, told, isModule, missing)) count += isModule ? 0 : 1;
    }
    session.variables.told = session.variables.names();
    return { variables: count, names: session.variables.told, missing: listed(missing) };
  }

  bring(builder, name, told, isModule, missing) {
    const why = this.lostOf(builder, told);
    if (why !== null) {
      missing.push({ name, type: 'variable', reason: why });
      return false;
    }
    const value = builder.value(told);
    this.session.variables.make(name, value);
    if (isModule) this.session.variables.modules.add(value);
    return true;
  }

  // Why a variable can't be had: something that it leads to is lost. Null: nothing is.
  lostOf(builder, told) {
    if (builder.lost.size === 0 || !Array.isArray(told)) return null;
    const seen = new Set();
    const pending = [told];
    while (pending.length > 0) {
      const next = pending.pop();
      if (!Array.isArray(next)) continue;
      const isReference = next.length === 1 && typeof next[0] === 'number';
      if (isReference && seen.has(next[0])) continue;
      if (isReference) seen.add(next[0]);
      if (isReference && builder.lost.has(next[0])) return builder.lost.get(next[0]);
      for (const item of isReference ? builder.nodes[next[0]] ?? [] : next) pending.push(item);
    }
    return null;
  }

  settle(index, missing) {
    for (const [name, value] of index.environment.set) process.env[name] = value;
    for (const name of index.environment.unset) delete process.env[name];
    const [base, rest] = index.cwd;
    const target = base === 'workspace' ? `${this.session.workspace}/${rest}` : rest;
    try {
      process.chdir(target);
    } catch {
      missing.push({ name: target, type: 'directory', reason: 'the session was in it, and it is not here' });
    }
  }
}

module.exports = { States };
