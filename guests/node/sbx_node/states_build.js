// SPDX-License-Identifier: Apache-2.0
// Makes the objects of a table (states_graph.js) anew. Functions and classes are made of their source, which runs
// nothing but the expression that they are; no constructor and no accessor of the user's is called.
'use strict';

// What the user's code makes of the global names is not our business.
const {
  Array, ArrayBuffer, Buffer, DataView, Date, Error, Map, Number, Object, Reflect, RegExp, Set, String, Symbol, TypeError,
  URL, URLSearchParams, Uint8Array,
} = globalThis;

const { expression } = require('./states_code.js');

const { defineProperty, preventExtensions, getOwnPropertyDescriptor } = Object;
const PARTS = new Set(['value', 'get', 'set']);
const TYPED = /^(Uint8|Uint8Clamped|Int8|Uint16|Int16|Uint32|Int32|Float16|Float32|Float64|BigInt64|BigUint64)Array$/;

function need(good, why) {
  if (!good) throw new TypeError(why);
}

class Builder {
  // `compile(text)`: the value of an expression; `part(number)`: bytes; `imported`: Map of paths and namespaces.
  constructor(table, known, { compile, part, imported }) {
    Object.assign(this, { nodes: table.nodes, parts: table.parts, known, compile, part, imported });
    need(Array.isArray(this.nodes) && this.nodes.every((node) => node === null || Array.isArray(node)), 'no table');
    this.made = new Array(this.nodes.length);
    this.lost = new Map(); // number: why
  }

  // All that can be made. What can't is in `lost`.
  run() {
    for (let number = 0; number < this.nodes.length; number++) this.object(number);
    for (let number = 0; number < this.nodes.length; number++) {
      if (this.lost.has(number) || this.nodes[number] === null) continue;
      try {
        this.fill(this.made[number], this.nodes[number]);
      } catch (error) {
        this.lose(number, error);
      }
    }
  }

  lose(number, error) {
    this.lost.set(number, typeof error?.message === 'string' ? error.message.slice(0, 200) : 'it can not be made');
  }

  value(told) {
    if (!Array.isArray(told)) return told;
    const number = told[0];
    const isThere = Number.isInteger(number) && number >= 0 && number < this.nodes.length && this.nodes[number] !== null;
    need(isThere, 'a reference to nothing');
    return this.object(number);
  }

  // Without its properties, the first time.
  object(number) {
    if (this.nodes[number] === null || this.lost.has(number)) return undefined;
    if (this.made[number] === undefined) {
      try {
        this.made[number] = this.shell(this.nodes[number], number);
      } catch (error) {
        this.lose(number, error);
      }
    }
    return this.made[number];
  }

  shell([kind, data], number) {
    switch (kind) {
      case 'known': return this.knownObject(data);
      case 'symbol': return this.symbol(data);
      case 'import': return this.imported.get(data) ?? this.knownObject(data);
      case 'member': return this.member(data);
      case 'function': return this.function(data);
      case 'prototype': return this.value(data).prototype;
      case 'object': return {};
      case 'array': return new Array(data[0]);
      case 'map': return new Map();
      case 'set': return new Set();
      case 'date': return new Date(data);
      case 'regexp': return new RegExp(data[0], data[1]);
      case 'error': return new Error();
      case 'buffer': return this.buffer(data, number);
      case 'view': return this.view(data);
      case 'boxed': return Object(data);
      case 'url': return new URL(data);
      case 'search': return new URLSearchParams(data);
      default: throw new TypeError(`a kind that this worker does not know: ${String(kind).slice(0, 40)}`);
    }
  }

  knownObject(path) {
    const found = typeof path === 'string' ? this.known.find(path) : undefined;
    need(found !== undefined, `there is no ${String(path).slice(2, 100).replaceAll('|', '/')} here`);
    return found;
  }

  symbol([kind, text]) {
    if (kind === 'for') return Symbol.for(text);
    return kind === 'known' ? Symbol[text] : Symbol(text);
  }

  member([owner, key, part]) {
    need(PARTS.has(part), 'no part of a member');
    const made = getOwnPropertyDescriptor(this.value(owner), this.value(key))?.[part];
    need(typeof made === 'function', 'its class has no such member');
    return made;
  }

  function([source, kind, name, above]) {
    const { text, key } = expression(source, kind);
    let made = this.compile(text);
    if (key === 'above') made = made(this.value(above));
    else if (key !== null) {
      const [first] = Reflect.ownKeys(made);
      made = getOwnPropertyDescriptor(made, first)[key];
    }
    need(typeof made === 'function', 'its source makes no function');
    if (getOwnPropertyDescriptor(made, 'name')?.value !== name) {
      defineProperty(made, 'name', { value: name, configurable: true });
    }
    return made;
  }

  buffer(data, number) {
    const bytes = typeof data === 'number' ? this.part(this.parts.get(number), data) : data;
    const made = new ArrayBuffer(bytes.byteLength);
    new Uint8Array(made).set(bytes);
    return made;
  }

  view([name, from, offset, length, isBuffer]) {
    if (from instanceof Uint8Array) return Buffer.from(from);
    const buffer = this.value(from);
    if (isBuffer) return Buffer.from(buffer, offset, length);
    need(name === 'DataView' || TYPED.test(name), 'no view');
    return name === 'DataView' ? new DataView(buffer, offset, length) : new globalThis[name](buffer, offset, length);
  }

  fill(made, [kind, data, proto, ordinary, others, isFixed]) {
    if (kind === 'known' || kind === 'symbol' || kind === 'import' || kind === 'member') return;
    if (proto !== undefined) need(Reflect.setPrototypeOf(made, this.value(proto)), 'its prototype can not be set');
    if (kind === 'array') this.items(made, data);
    else if (kind === 'map') {
      for (let at = 0; at < data.length; at += 2) {
        Map.prototype.set.call(made, this.value(data[at]), this.value(data[at + 1]));
      }
    } else if (kind === 'set') for (const item of data) Set.prototype.add.call(made, this.value(item));
    else if (kind === 'error') this.stack(made, data);
    this.properties(made, ordinary ?? [], others ?? []);
    if (isFixed === true) preventExtensions(made);
  }

  items(made, [length, items]) {
    for (let at = 0; at < items.length; at++) {
      if (!(at in items)) continue;
      defineProperty(made, at, { value: this.value(items[at]), writable: true, enumerable: true, configurable: true });
    }
    made.length = length;
  }

  stack(made, text) {
    const value = typeof text === 'string' ? text : undefined;
    defineProperty(made, 'stack', { value, writable: true, enumerable: false, configurable: true });
  }

  properties(made, ordinary, others) {
    for (let at = 0; at < ordinary.length; at += 2) {
      const value = this.value(ordinary[at + 1]);
      defineProperty(made, this.value(ordinary[at]), { value, writable: true, enumerable: true, configurable: true });
    }
    for (const item of others) {
      const [name, flags, first, second] = item;
      const shared = { enumerable: (flags & 2) !== 0, configurable: (flags & 4) !== 0 };
      const rest = item.length > 3 ? { get: this.value(first), set: this.value(second) }
        : { value: this.value(first), writable: (flags & 1) !== 0 };
      defineProperty(made, this.value(name), { ...shared, ...rest });
    }
  }
}

module.exports = { Builder };
