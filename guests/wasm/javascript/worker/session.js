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
    this.globals = {
      ...globals(this),
      ...this.timers.names(),
      ...this.tools.names(),
      context: this.variables.context(),
      display: (value, mime) => this.display.display(value, mime),
    };
    this.restoreGlobals();
    this.variables.settle();
  }

  // What differs from one session of an image to the next comes from the host's clock and random numbers when it is
  // asked for; the engine seeds Math.random.
  seed() {
    this.started = host.now();
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
