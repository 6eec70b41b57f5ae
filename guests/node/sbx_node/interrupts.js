// SPDX-License-Identifier: Apache-2.0
// SIGINT stops the user's code, whatever it is doing, and nothing of ours.
//
// A thread of its own, the watcher, waits for the signal: the main thread's event loop does not run while JavaScript
// does. It tells the main thread, which takes note if it is in its event loop. If it does not answer at once, it is in
// the middle of the user's code: the watcher kills the processes that it may be waiting for, and has V8 end what runs,
// through the inspector. That throws the whole stack away and leaves the event loop as it was; but what was in the
// queue of promises is lost, which is why nothing of ours waits in it.
'use strict';

// What the user's code makes of the global names is not our business.
const { Atomics, Date, Buffer, Int32Array, Math, Number, SharedArrayBuffer, Symbol, performance, process } = globalThis;

const { Worker } = require('worker_threads');
const { setTimeout: after } = require('timers');
const { descendants } = require('./processes.js');

// Words that both threads see.
const SLEEP = 0; // nobody ever changes it
const STATE = 1;
const PROTECTED = 2; // the main thread is in a part of ours that must not be torn apart
const UP = 3;
const EXIT = 4; // the code asked for its own end
const LIMIT = 5; // pages of memory that the execution may use; 0: any
const FULL = 6; // it was reached
const BEGAN = 7; // when the request that is under way began: the low bits of milliseconds; 0: none is
const WORDS = 8;
// Of STATE.
const PENDING = 1; // the watcher told of a signal
const TAKEN = 2; // the main thread knows
const ENDING = 3; // it did not answer: V8 is about to be told
const TOLD = 4; // V8 was told

const GRACE_MS = 30;
// Between two requests, when it can only be something in the background that keeps the main thread.
const IDLE_GRACE_MS = 500;
// A signal this soon may be meant for the request before. The host repeats it, as long as there is something to stop.
const EARLY_MS = 25;
const TOLD_MS = 1000;
const SETTLE_MS = 20;
const PAGE = 4096;

// The watcher's program; its text is run in another thread, so it refers to nothing outside but `descendants`.
function watch() {
  'use strict';
  const { workerData, parentPort } = require('worker_threads');
  const vm = require('vm');
  const fs = require('fs');
  const { words, names, options } = workerData;
  const { STATE, PROTECTED, UP, EXIT, LIMIT, FULL, BEGAN, PENDING, ENDING, TOLD } = names;
  const { GRACE_MS, IDLE_GRACE_MS, EARLY_MS, TOLD_MS } = names;
  const memory = fs.openSync('/proc/self/statm', 'r');
  const text = Buffer.alloc(128);
  let session = null;

  const kill = (pid) => {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // gone already
    }
  };

  // What the main thread may be waiting for in a call that V8 can't end.
  const killProcesses = () => (options.killAll ? kill(-1) : descendants(fs).forEach(kill));

  // Has the main thread's inspector do something, whatever it is doing.
  const tell = (method) => {
    if (session === null) {
      const inspector = require('inspector');
      session = new inspector.Session();
      session.connectToMainThread();
    }
    session.post(method);
  };

  const handle = () => {
    const asked = Atomics.exchange(words, EXIT, 0) === 1 || Atomics.load(words, FULL) === 1;
    const began = Atomics.load(words, BEGAN);
    if (!asked && began !== 0 && ((Date.now() | 1) & 0x7fffffff) - began < EARLY_MS) return;
    Atomics.store(words, STATE, PENDING);
    parentPort.postMessage(0);
    if (!asked) Atomics.wait(words, STATE, PENDING, began !== 0 ? GRACE_MS : IDLE_GRACE_MS);
    while (Atomics.load(words, STATE) === PENDING && Atomics.load(words, PROTECTED) === 1) {
      Atomics.wait(words, PROTECTED, 1, GRACE_MS);
    }
    if (Atomics.compareExchange(words, STATE, PENDING, ENDING) !== PENDING) return;
    if (!asked) killProcesses();
    tell('Runtime.terminateExecution');
    Atomics.store(words, STATE, TOLD);
    Atomics.notify(words, STATE);
    // A session that is left open would keep the process from ending.
    Atomics.wait(words, STATE, TOLD, TOLD_MS);
    session.disconnect();
    session = null;
  };

  // Pages of memory that are this process's own.
  const measure = () => {
    const size = fs.readSync(memory, text, 0, text.length, 0);
    const [, resident, shared] = text.latin1Slice(0, size).split(' ').map(Number);
    return resident - shared;
  };

  // Watches over an execution that may use `limit` pages. The garbage of a while may look like a need: it is collected
  // first. What was there before is not this execution's fault, and it may be the one that frees it.
  const guardMemory = (limit) => {
    const most = Math.max(limit * 0.85, Math.min(measure() + limit * 0.05, limit * 0.97));
    let collected = false;
    while (Atomics.load(words, LIMIT) === limit) {
      const used = measure();
      if (used > most) {
        Atomics.store(words, FULL, 1);
        handle();
        Atomics.wait(words, LIMIT, limit);
        return;
      }
      if (used > most * 0.8 && !collected) tell('HeapProfiler.collectGarbage');
      collected = used > most * 0.8;
      Atomics.wait(words, LIMIT, limit, used > most / 2 ? 3 : 15);
    }
  };

  // The signal ends the innermost of these. The outer ones keep Node from giving the signal back to the system while
  // nobody waits for it.
  const name = Symbol.for('sbx.watch');
  const nest = [
    () => {
      Atomics.store(words, UP, 1);
      Atomics.notify(words, UP);
      for (;;) {
        const limit = Atomics.load(words, LIMIT);
        if (limit > 0) guardMemory(limit);
        else Atomics.wait(words, LIMIT, 0);
      }
    },
  ];
  for (let level = 0; level < 3; level++) {
    const script = new vm.Script(`globalThis[Symbol.for('sbx.watch')][${level}]()`);
    nest.push(() => {
      for (;;) {
        try {
          script.runInThisContext({ breakOnSigint: true, displayErrors: false });
        } catch (error) {
          if (error.code !== 'ERR_SCRIPT_EXECUTION_INTERRUPTED') throw error;
        }
        handle();
      }
    });
  }
  globalThis[name] = nest;
  nest[nest.length - 1]();
}

// Node would take the signal away from the watcher for a listener of the user's.
function keepSignal() {
  for (const listener of process.listeners('newListener')) {
    if (listener.name !== 'startListeningIfSignal') continue;
    process.removeListener('newListener', listener);
    process.on('newListener', (type) => {
      if (type !== 'SIGINT') listener(type);
    });
  }
}

class Interrupts {
  // `killAll`: every other process but the first of the namespace is the session's.
  constructor(killAll) {
    const words = new Int32Array(new SharedArrayBuffer(4 * WORDS));
    const names = {
      STATE, PROTECTED, UP, EXIT, LIMIT, FULL, BEGAN, PENDING, ENDING, TOLD, GRACE_MS, IDLE_GRACE_MS, EARLY_MS, TOLD_MS,
    };
    this.words = words;
    this.onInterrupt = () => {};
    this.settling = null; // who waits for what the watcher began to be over
    keepSignal();
    this.watcher = new Worker(`${descendants}\n(${watch})()`, {
      eval: true, stdin: false, stdout: false, stderr: false, env: {}, execArgv: [], trackUnmanagedFds: false,
      resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 1, codeRangeSizeMb: 8, stackSizeMb: 1 },
      workerData: { words, names, options: { killAll } },
    });
    this.watcher.on('message', () => this.take());
    this.watcher.unref();
  }

  // Returns when signals are watched for.
  wait() {
    while (Atomics.load(this.words, UP) === 0) Atomics.wait(this.words, UP, 0, 100);
  }

  // The watcher told of a signal. One that `settle` has met already is over.
  take() {
    if (Atomics.load(this.words, STATE) !== TAKEN) this.settle(() => this.onInterrupt());
  }

  // Calls `next` when nothing that the watcher began can hit it: at once, or a little later, and then with true: the
  // code was torn apart.
  settle(next) {
    const { words } = this;
    if (this.settling !== null) {
      this.settling.push(next);
      return;
    }
    const before = Atomics.compareExchange(words, STATE, PENDING, TAKEN);
    Atomics.notify(words, STATE);
    if (before !== ENDING && before !== TOLD) {
      next(false);
      return;
    }
    // What V8 was told may still hit whoever runs next. That shall be this loop; `next` is another call.
    this.settling = [next];
    after(() => {
      const all = this.settling;
      this.settling = null;
      all.forEach((each) => each(true));
    }, SETTLE_MS + 5).unref();
    if (before === ENDING) Atomics.wait(words, STATE, ENDING, TOLD_MS);
    Atomics.store(words, STATE, TAKEN);
    const end = performance.now() + SETTLE_MS;
    while (performance.now() < end);
  }

  // A request begins: calls `next` when what was for another is over.
  begin(next) {
    Atomics.store(this.words, BEGAN, (Date.now() | 1) & 0x7fffffff);
    this.settle(next);
  }

  // And ends.
  end() {
    Atomics.store(this.words, LIMIT, 0);
    Atomics.notify(this.words, LIMIT);
    Atomics.store(this.words, BEGAN, 0);
    this.protect(false);
  }

  // While a part of ours runs that must not be torn apart.
  protect(on) {
    Atomics.store(this.words, PROTECTED, on ? 1 : 0);
    Atomics.notify(this.words, PROTECTED);
  }

  // The memory that the execution may use; 0: no limit.
  limit(bytes) {
    Atomics.store(this.words, FULL, 0);
    Atomics.store(this.words, LIMIT, Math.min(Math.floor(bytes / PAGE), 2 ** 31 - 1));
    Atomics.notify(this.words, LIMIT);
  }

  // Was it reached?
  takeMemory() {
    return Atomics.exchange(this.words, FULL, 0) === 1;
  }

  // The code that runs ends now, and not where it likes.
  leave() {
    Atomics.store(this.words, EXIT, 1);
    process.kill(process.pid, 'SIGINT');
    for (;;) Atomics.wait(this.words, SLEEP, 0, 1000);
  }
}

module.exports = { Interrupts };
