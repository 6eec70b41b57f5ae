// SPDX-License-Identifier: Apache-2.0
// Objects that every session has, by a path that leads to them: "g:Math.max", "g:Array.prototype", "m:fs/readFileSync".
'use strict';

// What the user's code makes of the global names is not our business.
const { Map, Object, Reflect, Set, WeakMap, process } = globalThis;

const { builtinModules, createRequire } = require('module');
const { isProxy } = require('util').types;

const DEPTH = 2;
// How far some are looked into: what these hold is made by the session, and saved as its own.
const FLAT = new Map([['require', 0], ['module', 0], ['exports', 0], ['context', 0], ['tools', 0], ['process', 1]]);
const isObject = (value) => value !== null && (typeof value === 'object' || typeof value === 'function');
// Intrinsics that no global name leads to.
const HIDDEN = {
  AsyncFunction: async () => {}, GeneratorFunction: function* () {}, AsyncGeneratorFunction: async function* () {},
};

function loadedModules() {
  const loaded = new Set(process.moduleLoadList);
  return builtinModules.filter((name) => loaded.has(`NativeModule ${name}`) && !name.startsWith('_'));
}

// Values of own properties, without asking accessors.
function* members(value) {
  for (const key of Reflect.ownKeys(value)) {
    const held = Object.getOwnPropertyDescriptor(value, key);
    if (typeof key === 'symbol' && key.description?.startsWith('Symbol.') !== true) continue;
    const name = typeof key === 'symbol' ? `@${key.description.slice(7)}` : key;
    if (name.includes('/')) continue;
    if ('value' in held) yield [name, held.value];
    else for (const part of ['get', 'set']) if (held[part] !== undefined) yield [`${name}!${part}`, held[part]];
  }
}

function step(value, name) {
  const [key, part] = name.split('!');
  const held = Object.getOwnPropertyDescriptor(value, key.startsWith('@') ? globalThis.Symbol[key.slice(1)] : key);
  return held?.[part ?? 'value'];
}

class Known {
  // `own`: the global object's properties before any code ran.
  constructor(own, workspace) {
    this.paths = new WeakMap();
    this.modules = new Map();
    this.own = own;
    this.workspace = workspace;
    this.native = createRequire(`${workspace}/[execution]`);
    this.add(globalThis, 'g:');
    for (const [name, held] of own) {
      if (typeof name !== 'string' || !('value' in held) || name.includes('/')) continue;
      this.explore(held.value, `g:${name}`, FLAT.get(name) ?? DEPTH);
    }
    for (const [name, made] of Object.entries(HIDDEN)) this.explore(Object.getPrototypeOf(made), `h:${name}`, 1);
  }

  add(value, path) {
    if (this.paths.has(value)) return false;
    this.paths.set(value, path);
    return true;
  }

  explore(value, path, depth) {
    if (!isObject(value) || !this.add(value, path) || depth === 0 || isProxy(value)) return;
    for (const [name, inner] of members(value)) this.explore(inner, `${path}/${name}`, depth - 1);
  }

  // The path of what every session has; undefined: it is the session's own.
  path(value) {
    return this.paths.get(value);
  }

  // Modules that were loaded since.
  lookAtModules() {
    const loaded = loadedModules();
    for (const name of loaded) {
      if (this.modules.has(name)) continue;
      this.modules.set(name, true);
      this.explore(this.native(name), `m:${name.replaceAll('/', '|')}`, 2);
    }
    for (const [file, module] of Object.entries(this.native.cache)) {
      if (this.modules.get(file) === module.exports || file.endsWith('.json')) continue; // the latter are data
      this.modules.set(file, module.exports);
      const name = file.startsWith(`${this.workspace}/`) ? `.${file.slice(this.workspace.length)}` : file;
      this.explore(module.exports, `f:${name.replaceAll('/', '|')}`, 2);
    }
  }

  // The object that a path leads to; undefined: there is none.
  find(path) {
    const [first, ...rest] = path.slice(2).split('/');
    const kind = path.slice(0, 2);
    let value;
    if (path === 'g:') return globalThis;
    if (kind === 'g:') value = this.own.get(first)?.value;
    else if (kind === 'h:') value = Object.getPrototypeOf(HIDDEN[first]);
    else value = this.native(first.replaceAll('|', '/'));
    for (const name of rest) {
      if (!isObject(value)) return undefined;
      value = step(value, name);
    }
    return isObject(value) ? value : undefined;
  }

  // What `require` would be given for a module, or null.
  module(value) {
    const path = this.path(value);
    return path !== undefined && /^[mf]:[^/]*$/.test(path) ? path : null;
  }
}

module.exports = { Known, isObject };
