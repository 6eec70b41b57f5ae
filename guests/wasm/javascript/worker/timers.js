// SPDX-License-Identifier: Apache-2.0
// Timers. They run while an execution waits: an execution waits for those that end by themselves, not for intervals.
'use strict';

// What the user's code makes of the global names is not our business.
const { Map, Math, Number, TypeError } = globalThis;

const DELAY_MAX = 2 ** 31 - 1;

class Timers {
  constructor() {
    this.list = new Map(); // number, timer
    this.serial = 0;
  }

  add(run, delay, values, repeats) {
    if (typeof run !== 'function') throw new TypeError('a timer needs a function');
    const number = Number(delay);
    const wait = number >= 1 && number <= DELAY_MAX ? number : repeats ? 1 : 0;
    this.serial++;
    this.list.set(this.serial, { run, values, wait, due: host.now() + wait, repeats });
    return this.serial;
  }

  // The next one to run: its number, or null; `all`: intervals as well.
  next(all) {
    let found = null;
    let due = Infinity;
    for (const [number, timer] of this.list) {
      if ((all || !timer.repeats) && timer.due < due) {
        due = timer.due;
        found = number;
      }
    }
    return found;
  }

  get hasFinite() {
    return this.next(false) !== null;
  }

  // Waits for the next one and runs it; false: there is none.
  step() {
    const number = this.next(true);
    if (number === null) return false;
    const timer = this.list.get(number);
    const left = timer.due - host.now();
    if (left > 0) host.sleep(left);
    if (timer.repeats) timer.due = Math.max(timer.due + timer.wait, host.now());
    else this.list.delete(number);
    timer.run(...timer.values);
    return true;
  }

  drop() {
    this.list.clear();
  }

  names() {
    const clear = (number) => void this.list.delete(number);
    return {
      setTimeout: (run, delay, ...values) => this.add(run, delay, values, false),
      setInterval: (run, delay, ...values) => this.add(run, delay, values, true),
      setImmediate: (run, ...values) => this.add(run, 0, values, false),
      clearTimeout: clear,
      clearInterval: clear,
      clearImmediate: clear,
    };
  }
}

const { Infinity } = globalThis;

module.exports = { Timers };
