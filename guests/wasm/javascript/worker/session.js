// SPDX-License-Identifier: Apache-2.0
// What lasts between the executions of a session: its global object, and what it was given.
'use strict';

// What the user's code makes of the global names is not our business.
const { Map, Number, Object } = globalThis;

const { Variables } = require('./variables.js');
const { Display } = require('./display.js');
const { Tools } = require('./tools.js');
const { Timers } = require('./timers.js');
const { globals } = require('./globals.js');

class Session {
  constructor() {
    this.timers = new Timers();
    this.variables = new Variables();
    this.display = new Display();
    this.tools = new Tools({ send: (type, json, blob) => host.send(type, json, blob) }, this.variables);
    this.numbers = new Map(); // how often a file name was given
    this.exitCode = undefined; // of process.exit()
    this.required = false; // a module was
    this.globals = {
      ...globals(this),
      ...this.timers.names(),
      ...this.tools.names(),
      context: this.variables.context(),
      display: (value, mime) => this.display.display(value, mime),
    };
    this.names = Object.keys(this.globals);
    this.version = 0; // of the global object's properties, when their names were last looked at
    this.restoreGlobals();
    this.variables.settle();
  }

  // Names of variables if they may have changed and did: there are a hundred to look at. What require() returned is no
  // variable, and its name one that can become it without being new.
  changedNames() {
    const version = host.globalsVersion();
    if (version === this.version && !this.required) return undefined;
    this.version = version;
    return this.variables.changed();
  }

  // The image is made: what was done for it is not the session's.
  forget() {
    this.numbers.clear();
    this.variables.told = null;
    this.version = 0;
    this.required = false;
    this.tools.serial = 0;
    this.timers.serial = 0;
  }

  // It begins: until now it was an image.
  start() {
    this.started = host.now();
  }

  // A variable of the user's may hide a name of ours; one that was deleted comes back.
  restoreGlobals() {
    for (const name of this.names) {
      const value = this.globals[name];
      if (globalThis[name] === value) continue;
      const held = Object.getOwnPropertyDescriptor(globalThis, name);
      if (held === undefined || (held.value !== value && !this.variables.replaced.has(name))) {
        Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
      }
    }
  }

  exit(code) {
    this.exitCode = Number(code ?? 0);
    host.leave();
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
}

module.exports = { Session };
