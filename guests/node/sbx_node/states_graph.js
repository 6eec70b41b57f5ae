// SPDX-License-Identifier: Apache-2.0
// Makes a table of plain data of a session's variables and of all that they lead to. No code of the user's runs:
// neither accessors are asked nor proxies touched.
//
// A value is itself if it is primitive, else [number of a node]; a node is [kind, data, prototype, properties, others,
// fixed]. `properties` are the ordinary ones: name, value, name, value ...; of the others each is [name, flags, value]
// or [name, flags, getter, setter]. A prototype that is undefined is the usual one of the kind.
'use strict';

// What the user's code makes of the global names is not our business.
const {
  Array, ArrayBuffer, Boolean, Buffer, DataView, Date, Error, Function, Map, Number, Object, Reflect, RegExp, Set, String,
  Symbol, URL, URLSearchParams, Uint8Array,
} = globalThis;

const util = require('util');
const { Functions, Unsaved } = require('./states_code.js');
const { isObject } = require('./states_known.js');
const { className } = require('./text.js');

const { types } = util;
const { getPrototypeOf, getOwnPropertyDescriptor, isExtensible } = Object;
const { ownKeys } = Reflect;
const LOOK_EVERY = 4096; // nodes between looks at the clock
const OWN_SIZE = 256 << 10; // bytes that are a part of their own
const FLAGS = [['writable', 1], ['enumerable', 2], ['configurable', 4]];
const ORDINARY = 7;

const getter = (owner, name) => getOwnPropertyDescriptor(owner, name).get;
const call = (made) => Function.prototype.call.bind(made);
const ask = {
  time: call(Date.prototype.getTime),
  source: call(getter(RegExp.prototype, 'source')),
  flags: call(getter(RegExp.prototype, 'flags')),
  eachOfMap: call(Map.prototype.forEach),
  eachOfSet: call(Set.prototype.forEach),
  view: call(getter(getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag)),
  text: call(String.prototype.valueOf), number: call(Number.prototype.valueOf), truth: call(Boolean.prototype.valueOf),
  href: call(getter(URL.prototype, 'href')), search: call(URLSearchParams.prototype.toString),
  toSource: call(Function.prototype.toString),
};
const getters = (owner, names) => Object.fromEntries(names.map((name) => [name, call(getter(owner, name))]));
const OF_TYPED = getters(getPrototypeOf(Uint8Array.prototype), ['buffer', 'byteOffset', 'byteLength', 'length']);
const OF_DATA = getters(DataView.prototype, ['buffer', 'byteOffset', 'byteLength']);

const REFUSED = [
  ['isProxy', 'a Proxy'], ['isPromise', 'a promise'], ['isWeakMap', 'a WeakMap'], ['isWeakSet', 'a WeakSet'],
  ['isGeneratorObject', 'a generator'], ['isMapIterator', 'an iterator'], ['isSetIterator', 'an iterator'],
  ['isExternal', 'an object of native code'], ['isArgumentsObject', 'the arguments of a call'],
  ['isSharedArrayBuffer', 'memory that is shared'],
];

function flagsOf(held) {
  let flags = 0;
  for (const [name, bit] of FLAGS) if (held[name] === true) flags |= bit;
  return flags;
}

class Graph {
  // `tick()` is called now and then, `charge(bytes)` for what is going to be kept; both may throw.
  constructor(known, functions, { tick, charge }) {
    Object.assign(this, { known, functions, tick, charge });
    this.nodes = [];
    this.numbers = new Map();
    this.queue = [];
    this.bad = new Map(); // number: why it can't be saved
    this.users = []; // of each node, the nodes that lead to it
    this.buffers = []; // [node, bytes] with a part of their own
    this.chains = new Map(); // prototype: null, or why instances of it can't be saved
    this.members = new Map(); // method of a class: [the class or its prototype, name, which]
  }

  // A value as it stands in a node of number `from` (-1: a variable).
  value(value, from) {
    if (typeof value === 'string') this.charge(value.length);
    if (!isObject(value) && typeof value !== 'symbol') return value;
    let number = this.numbers.get(value);
    if (number === undefined) {
      number = this.nodes.push(null) - 1;
      this.numbers.set(value, number);
      this.users.push([]);
      this.queue.push(value);
      if (typeof value === 'function') this.noteMembers(value);
      if ((number & (LOOK_EVERY - 1)) === 0) this.tick();
      this.charge(16);
    }
    if (from >= 0) this.users[number].push(from);
    return [number];
  }

  // Methods that stand in the source of a class come with it, wherever else they are found.
  noteMembers(made) {
    if (types.isProxy(made) || this.known.path(made) !== undefined || !ask.toSource(made).startsWith('class')) return;
    try {
      const { source, kind } = this.functions.look(made);
      if (kind !== 'class') return;
      this.keepMembers(made, source, new Set());
      this.keepMembers(getOwnPropertyDescriptor(made, 'prototype').value, source, new Set());
    } catch (error) {
      if (!(error instanceof Unsaved)) throw error; // which is told when it is its turn
    }
  }

  // Makes the nodes of all that is still waiting.
  run() {
    while (this.queue.length > 0) {
      const value = this.queue.pop();
      const number = this.numbers.get(value);
      try {
        this.nodes[number] = this.node(value, number);
      } catch (error) {
        if (!(error instanceof Unsaved)) throw error;
        this.bad.set(number, { why: error.message, title: this.title(value) });
      }
    }
  }

  title(value) {
    if (typeof value !== 'function') return className(value);
    const name = getOwnPropertyDescriptor(value, 'name')?.value;
    return typeof name === 'string' && name !== '' ? `function ${name}` : 'function';
  }

  // What leads to something that can't be saved can't be saved either: {number: why}.
  spread() {
    const reasons = new Map();
    const pending = [];
    for (const [number, { why, title }] of this.bad) {
      reasons.set(number, why);
      pending.push([number, `${title}: ${why}`]);
    }
    while (pending.length > 0) {
      const [number, why] = pending.pop();
      for (const user of this.users[number]) {
        if (reasons.has(user)) continue;
        reasons.set(user, why);
        pending.push([user, why]);
      }
    }
    return reasons;
  }

  // ---- nodes ----

  node(value, number) {
    if (typeof value === 'symbol') return this.symbol(value);
    const path = this.known.path(value);
    if (path !== undefined) return ['known', path];
    for (const [test, what] of REFUSED) if (types[test](value)) throw new Unsaved(what);
    if (types.isModuleNamespaceObject(value)) return this.module(value);
    const member = this.members.get(value);
    if (member !== undefined) return ['member', [this.value(member[0], number), member[1], member[2]]];
    if (typeof value === 'function') return this.function(value, number);
    const owner = this.ownerOf(value);
    if (owner !== null) return this.prototype(value, owner, number);
    return this.object(value, number);
  }

  symbol(value) {
    const key = Symbol.keyFor(value);
    if (key !== undefined) return ['symbol', ['for', key]];
    const name = value.description?.startsWith('Symbol.') ? value.description.slice(7) : null;
    if (name !== null && Symbol[name] === value) return ['symbol', ['known', name]];
    return ['symbol', ['own', value.description]];
  }

  module(value) {
    const inner = getOwnPropertyDescriptor(value, 'default')?.value;
    const path = isObject(inner) ? this.known.module(inner) : null;
    if (path === null) throw new Unsaved('a module that import() brought: import it again');
    return ['import', path];
  }

  // The function whose `prototype` a value is, or null.
  ownerOf(value) {
    const made = getOwnPropertyDescriptor(value, 'constructor')?.value;
    if (typeof made !== 'function' || types.isProxy(made) || this.known.path(made) !== undefined) return null;
    return getOwnPropertyDescriptor(made, 'prototype')?.value === value ? made : null;
  }

  function(value, number) {
    const { source, kind } = this.functions.look(value);
    this.charge(source.length);
    const skip = new Set(['length', 'name', 'arguments', 'caller', 'prototype']);
    const inner = getOwnPropertyDescriptor(value, 'prototype')?.value;
    let above = null;
    if (kind === 'class') {
      above = this.value(getPrototypeOf(value), number);
      this.keepMembers(value, source, skip);
    }
    if (isObject(inner) && (kind === 'class' || this.isTelling(inner))) this.value(inner, number);
    const name = getOwnPropertyDescriptor(value, 'name')?.value;
    const data = [source, kind, typeof name === 'string' ? name : '', above];
    return this.finish('function', data, value, number, skip, kind === 'class' ? getPrototypeOf(value) : null);
  }

  // Has the `prototype` of a function more than its `constructor`?
  isTelling(inner) {
    const keys = ownKeys(inner);
    if (keys.length === 0) return false; // of a generator function
    return keys.length !== 1 || getPrototypeOf(inner) !== Object.prototype;
  }

  // Notes them, and adds their names to what is not a property of its own.
  keepMembers(owner, source, skip) {
    for (const key of ownKeys(owner)) {
      const held = getOwnPropertyDescriptor(owner, key);
      for (const part of ['value', 'get', 'set']) {
        const made = held[part];
        if (typeof made !== 'function' || held.enumerable || types.isProxy(made)) continue;
        if (key === 'constructor' || !source.includes(ask.toSource(made))) continue;
        this.members.set(made, [owner, typeof key === 'symbol' ? this.value(key, -1) : key, part]);
        skip.add(key);
      }
    }
  }

  prototype(value, owner, number) {
    const data = this.value(owner, number);
    const skip = new Set(['constructor']);
    const { source, kind } = this.functions.look(owner);
    if (kind === 'class') this.keepMembers(value, source, skip);
    const usual = kind === 'class' ? getPrototypeOf(value) : Object.prototype;
    return this.finish('prototype', data, value, number, skip, usual);
  }

  object(value, number) {
    const [kind, base, data, skip] = this.kind(value, number);
    this.checkChain(value, base);
    return this.finish(kind, data, value, number, skip, base);
  }

  // [kind, the usual prototype, data, properties that are not to be kept]
  kind(value, number) {
    const none = new Set();
    if (Array.isArray(value)) return ['array', Array.prototype, ...this.items(value, number)];
    if (types.isMap(value)) return ['map', Map.prototype, this.pairs(value, number), none];
    if (types.isSet(value)) return ['set', Set.prototype, this.singles(value, number), none];
    if (types.isDate(value)) return ['date', Date.prototype, ask.time(value), none];
    if (types.isRegExp(value)) return ['regexp', RegExp.prototype, [ask.source(value), ask.flags(value)], none];
    if (types.isArrayBuffer(value)) return ['buffer', ArrayBuffer.prototype, this.bytes(value, number), none];
    if (ArrayBuffer.isView(value)) return this.view(value, number);
    if (types.isNativeError(value)) return ['error', Error.prototype, this.stack(value), new Set(['stack'])];
    if (types.isBoxedPrimitive(value)) return this.boxed(value);
    if (getPrototypeOf(value) === URL.prototype) return ['url', URL.prototype, ask.href(value), null];
    if (getPrototypeOf(value) === URLSearchParams.prototype) {
      return ['search', URLSearchParams.prototype, ask.search(value), null];
    }
    return ['object', Object.prototype, null, none];
  }

  items(value, number) {
    const { length } = value;
    const skip = new Set(['length']);
    const keys = ownKeys(value);
    if (length > 4 * keys.length + 1000) return [[length, []], skip];
    const items = new Array(length);
    let there = 0;
    for (let at = 0; at < length; at++) {
      const held = getOwnPropertyDescriptor(value, at);
      if (held === undefined) continue;
      there++;
      if (!('value' in held) || flagsOf(held) !== ORDINARY) return [[length, []], skip];
      items[at] = this.value(held.value, number);
    }
    this.charge(length * 4);
    return [[length, items], keys.length === there + 1 ? null : new Set(keys.slice(0, keys.indexOf('length') + 1))];
  }

  pairs(value, number) {
    const out = [];
    ask.eachOfMap(value, (inner, key) => out.push(this.value(key, number), this.value(inner, number)));
    return out;
  }

  singles(value, number) {
    const out = [];
    ask.eachOfSet(value, (inner) => out.push(this.value(inner, number)));
    return out;
  }

  bytes(value, number) {
    const bytes = new Uint8Array(value);
    this.charge(bytes.length);
    if (bytes.length < OWN_SIZE) return bytes;
    this.buffers.push([number, bytes]);
    return bytes.length;
  }

  view(value, number) {
    const isData = types.isDataView(value);
    const name = isData ? 'DataView' : ask.view(value);
    const isBuffer = Buffer.isBuffer(value);
    const base = isBuffer ? Buffer.prototype : globalThis[name].prototype;
    const of = isData ? OF_DATA : OF_TYPED;
    const buffer = of.buffer(value);
    const byteOffset = of.byteOffset(value);
    const byteLength = of.byteLength(value);
    let data;
    if (isBuffer && byteLength < buffer.byteLength && buffer.byteLength === Buffer.poolSize) {
      this.charge(byteLength); // a piece of what all small buffers share
      data = [name, Uint8Array.prototype.slice.call(value), 0, byteLength, true];
    } else {
      const length = isData ? byteLength : of.length(value);
      data = [name, this.value(buffer, number), byteOffset, length, isBuffer];
    }
    return ['view', base, data, null]; // names of its indexes can't be told from others without making them all
  }

  stack(value) {
    const held = getOwnPropertyDescriptor(value, 'stack');
    const isNative = typeof held?.get === 'function' && ask.toSource(held.get).endsWith('{ [native code] }');
    const text = isNative ? held.get.call(value) : held?.value;
    return typeof text === 'string' ? text : null;
  }

  boxed(value) {
    if (types.isStringObject(value)) {
      const text = ask.text(value);
      return ['boxed', String.prototype, text, new Set(['length', ...Object.keys(text)])];
    }
    if (types.isNumberObject(value)) return ['boxed', Number.prototype, ask.number(value), new Set()];
    if (types.isBooleanObject(value)) return ['boxed', Boolean.prototype, ask.truth(value), new Set()];
    throw new Unsaved('an object around a symbol or a bigint');
  }

  // ---- what all kinds have ----

  checkChain(value, base) {
    for (let at = getPrototypeOf(value); at !== null && at !== base; at = getPrototypeOf(at)) {
      if (types.isProxy(at)) throw new Unsaved('its prototype is a Proxy');
      let why = this.chains.get(at);
      if (why === undefined) {
        why = this.judge(at, base);
        this.chains.set(at, why);
      }
      if (why !== null) throw new Unsaved(why);
    }
  }

  judge(at, base) {
    if (this.known.path(at) !== undefined) {
      const isError = base === Error.prototype && Object.prototype.isPrototypeOf.call(Error.prototype, at);
      return isError || at === Object.prototype ? null : `an instance of ${className(at)}`;
    }
    const owner = this.ownerOf(at);
    if (owner === null) return null;
    const facts = this.functions.look(owner);
    return facts.hasPrivate === true ? 'it has private members' : null;
  }

  finish(kind, data, value, number, skip, base) {
    const above = getPrototypeOf(value);
    const isUsual = above === base || (base === null && above === Function.prototype);
    const proto = isUsual ? undefined : above === null ? null : this.value(above, number);
    const [ordinary, others] = skip === null ? [] : this.properties(value, number, skip);
    return [kind, data, proto, ordinary, others, isExtensible(value) ? undefined : true];
  }

  properties(value, number, skip) {
    let ordinary;
    let others;
    for (const key of ownKeys(value)) {
      if (skip.has(key)) continue;
      const held = getOwnPropertyDescriptor(value, key);
      const name = typeof key === 'symbol' ? this.value(key, number) : key;
      if (typeof key === 'string') this.charge(key.length);
      const flags = flagsOf(held);
      if (!('value' in held)) {
        (others ??= []).push([name, flags, this.value(held.get, number), this.value(held.set, number)]);
      } else if (flags === ORDINARY) (ordinary ??= []).push(name, this.value(held.value, number));
      else (others ??= []).push([name, flags, this.value(held.value, number)]);
    }
    return [ordinary, others];
  }
}

module.exports = { Graph, Functions };
