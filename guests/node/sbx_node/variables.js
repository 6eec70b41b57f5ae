// SPDX-License-Identifier: Apache-2.0
// The session's variables: what the code has added to the global object.
'use strict';

// What the user's code makes of the global names is not our business.
const { JSON, Map, Object, Proxy, Reflect, Set, String, TypeError, WeakSet } = globalThis;

const util = require('util');
const { clean, className, describe, dumpsValue, dumps } = require('./text.js');

const NAMES_MAX = 200;
const NAME_MAX = 200; // characters
const TOTAL_MAX = 1 << 20;
const JSON_MAX = 64 << 10;
const HIDDEN = /^__.*__$/s;

class Variables {
  constructor() {
    this.own = new Map(); // what was there before: name, property
    this.replaced = new Set(); // names of these that the code declared as its own
    this.modules = new WeakSet(); // what require() returned: no variables
    this.told = null; // names as the host last heard of them
  }

  // What is on the global object now is not the session's.
  settle() {
    for (const name of Reflect.ownKeys(globalThis)) {
      this.own.set(name, Object.getOwnPropertyDescriptor(globalThis, name));
    }
  }

  // Makes room for names that code is about to declare. `fresh`: whatever they were before, they start anew.
  declare(names, fresh) {
    for (const name of names) {
      const held = Object.getOwnPropertyDescriptor(globalThis, name);
      const isOurs = this.own.has(name) && !this.replaced.has(name);
      if (held === undefined || (isOurs && fresh.includes(name))) this.make(name);
    }
  }

  make(name, value) {
    Object.defineProperty(globalThis, name, { value, writable: true, enumerable: true, configurable: true });
    if (this.own.has(name)) this.replaced.add(name);
  }

  isName(name) {
    return typeof name === 'string' && !HIDDEN.test(name) && (!this.own.has(name) || this.replaced.has(name));
  }

  // [name, value] of each. Accessors are not asked.
  *entries() {
    for (const name of Reflect.ownKeys(globalThis)) {
      if (!this.isName(name)) continue;
      const held = Object.getOwnPropertyDescriptor(globalThis, name);
      if (held === undefined || !held.enumerable || !('value' in held) || this.isModule(held.value)) continue;
      yield [name, held.value];
    }
  }

  // What `import` bound: a module's default export may be the module itself.
  imported(names) {
    for (const name of names) {
      const value = Object.getOwnPropertyDescriptor(globalThis, name)?.value;
      if (value !== null && typeof value === 'object') this.modules.add(value);
    }
  }

  isModule(value) {
    if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return false;
    return util.types.isModuleNamespaceObject(value) || this.modules.has(value);
  }

  names() {
    const found = [];
    for (const [name] of this.entries()) {
      if (name.length > NAME_MAX || name.includes('\0')) continue;
      found.push(clean(name));
      if (found.length === NAMES_MAX) break;
    }
    return found;
  }

  // The names if they changed since the host heard of them, else undefined.
  changed() {
    const found = this.names();
    const { told } = this;
    if (told !== null && told.length === found.length && found.every((name, at) => name === told[at])) return undefined;
    this.told = found;
    return found;
  }

  set(name, value) {
    if (HIDDEN.test(name)) throw new TypeError(`${name}: names with two underscores at both ends are not variables`);
    this.make(name, value);
  }

  clear() {
    for (const name of Reflect.ownKeys(globalThis)) {
      if (this.own.has(name)) continue;
      if (!Reflect.deleteProperty(globalThis, name)) Reflect.set(globalThis, name, undefined);
    }
    for (const [name, property] of this.own) {
      if (property.configurable) Reflect.defineProperty(globalThis, name, property);
    }
    this.replaced.clear();
  }

  // {variables, omitted?} as `get` is answered; `wanted`: names, or null for all.
  tell(wanted) {
    const chosen = wanted === null ? null : new Set(wanted);
    const told = {};
    let left = TOTAL_MAX;
    let omitted = 0;
    for (const [name, value] of this.entries()) {
      if (chosen !== null && !chosen.has(name)) continue;
      if (name.length > NAME_MAX || name.includes('\0') || clean(name) !== name) continue;
      const item = { type: className(value), repr: describe(value) };
      const json = left > 0 ? dumpsValue(value, JSON_MAX) : null;
      left -= dumps(item).length + (json?.length ?? 0) + 6 * name.length + 16;
      if (left < 0) {
        omitted++;
        continue;
      }
      if (json !== null) item.json = JSON.parse(json.toString('latin1'));
      Object.defineProperty(told, name, { value: item, enumerable: true, configurable: true, writable: true });
    }
    return omitted > 0 ? { variables: told, omitted } : { variables: told };
  }

  // The variables as an object, also for names that are no identifiers: `context['a name']`.
  context() {
    const held = (name) => (this.isName(name) ? Object.getOwnPropertyDescriptor(globalThis, name) : undefined);
    return new Proxy(Object.create(null), {
      get: (_target, name) => (held(name) === undefined ? undefined : globalThis[name]),
      has: (_target, name) => held(name) !== undefined,
      set: (_target, name, value) => {
        this.set(String(name), value);
        return true;
      },
      deleteProperty: (_target, name) => held(name) === undefined || Reflect.deleteProperty(globalThis, name),
      ownKeys: () => [...this.entries()].map(([name]) => name),
      getOwnPropertyDescriptor: (_target, name) => {
        const found = held(name);
        return found === undefined ? undefined : { ...found, configurable: true };
      },
    });
  }
}

module.exports = { Variables };
