// SPDX-License-Identifier: Apache-2.0
// What lasts between the executions of a session: its global object, its streams, and what it was given.
'use strict';

// What the user's code makes of the global names is not our business.
const { Map, Number, Object, String, process } = globalThis;

const vm = require('vm');
const path = require('path');
const { createRequire, isBuiltin, builtinModules } = require('module');
const { pathToFileURL } = require('url');
const { Streams } = require('./output.js');
const { Variables } = require('./variables.js');
const { Display } = require('./display.js');
const { Tools } = require('./tools.js');
const { Pending } = require('./pending.js');
const { dropWarnings } = require('./warnings.js');

const DEFAULT_LOADER = vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER;

function isModuleName(name) {
  return typeof isBuiltin === 'function' ? isBuiltin(name) : builtinModules.includes(name.replace(/^node:/, ''));
}

// For `import()` in code where vm.Script can't be told to do as usual.
function importer(parent) {
  const { esmLoader } = require('internal/process/esm_loader');
  return (specifier, _script, attributes) => esmLoader.import(specifier, parent, attributes ?? Object.create(null));
}

class Session {
  constructor(channel, interrupts) {
    this.interrupts = interrupts;
    this.workspace = process.cwd();
    this.streams = new Streams();
    this.variables = new Variables();
    this.display = new Display(channel);
    this.tools = new Tools(channel, this.variables);
    this.pending = new Pending();
    this.numbers = new Map(); // how often a file name was given
    this.exitCode = undefined; // of process.exit()
    this.fresh = true; // no code has run
    this.isOurs = false; // all of this guest is this session's
    const parent = path.join(this.workspace, '[execution]');
    this.importModule = DEFAULT_LOADER ?? importer(pathToFileURL(parent).href);
    this.globals = this.makeGlobals(parent);
    this.settle();
  }

  makeGlobals(parent) {
    const native = createRequire(parent);
    const { modules } = this.variables;
    const require = (name) => {
      const found = native(name);
      const isObject = found !== null && (typeof found === 'object' || typeof found === 'function');
      if (isObject && (isModuleName(String(name)) || !String(name).endsWith('.json'))) modules.add(found);
      return found;
    };
    const { resolve, cache, extensions } = native;
    const module = { exports: {}, id: '.', filename: parent, loaded: false, children: [], paths: resolve.paths('x') };
    Object.assign(require, { resolve, cache, extensions, main: module });
    module.require = require;
    modules.add(module).add(module.exports);
    return {
      require, module, exports: module.exports,
      context: this.variables.context(),
      display: (value, mime) => this.display.display(value, mime),
      ...this.tools.names(),
    };
  }

  settle() {
    dropWarnings(/^vm\.USE_MAIN_CONTEXT_DEFAULT_LOADER /);
    process.exit = (code) => this.exit(code);
    process.argv.length = 1;
    process.execArgv.length = 0;
    this.restoreGlobals();
    this.variables.settle();
  }

  // A variable of the user's may hide a name of ours; one that was deleted comes back.
  restoreGlobals() {
    for (const [name, value] of Object.entries(this.globals)) {
      const held = Object.getOwnPropertyDescriptor(globalThis, name);
      if (held === undefined || (held.value !== value && !this.variables.replaced.has(name))) {
        Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
      }
    }
  }

  begin() {
    this.streams.restore();
    this.restoreGlobals();
    this.exitCode = undefined;
  }

  exit(code) {
    this.exitCode = Number(code ?? process.exitCode ?? 0);
    process.exitCode = undefined;
    this.interrupts.leave();
  }

  clear() {
    this.variables.clear();
    this.restoreGlobals();
  }

  // "<execution>", "<execution 2>", so that each piece of code shows its own lines.
  fileName(wanted) {
    const name = typeof wanted === 'string' && wanted !== '' ? wanted : '<execution>';
    if (!name.startsWith('<') || !name.endsWith('>')) return name;
    const number = (this.numbers.get(name) ?? 0) + 1;
    this.numbers.set(name, number);
    return number === 1 ? name : `${name.slice(0, -1)} ${number}>`;
  }

  compile(code, filename, columnOffset = 0) {
    return new vm.Script(code, { filename, columnOffset, importModuleDynamically: this.importModule });
  }
}

module.exports = { Session };
