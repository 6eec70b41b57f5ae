// SPDX-License-Identifier: Apache-2.0
// One request at a time: begins it, waits for what it began, and tells how it ended. Everything that may run code of
// the user's is a call of its own from the event loop, because an interrupt throws the whole call away.
'use strict';

// What the user's code makes of the global names is not our business.
const { Buffer, Math, Number, Object, Promise, SyntaxError, TextDecoder, process } = globalThis;

const util = require('util');
const { setImmediate: soon, setTimeout: after } = require('timers');
const { RESULT } = require('./frames.js');
const { REPR_MAX, describe, dumps, dumpsValue } = require('./text.js');
const { tell, isMemory, Interrupted, MemoryLimit, ExitError } = require('./errors.js');
const { transform, ASYNC_PREFIX } = require('./transform.js');
const { killAll } = require('./processes.js');

const RESULT_JSON_MAX = 1 << 20;
const POLL_MAX_MS = 8;
const NOTHING = Buffer.alloc(0);
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: false });

class Executor {
  constructor(channel, session, interrupts, owned) {
    this.channel = channel;
    this.session = session;
    this.interrupts = interrupts;
    this.owned = owned;
    this.current = null; // the request that is under way
    interrupts.onInterrupt = () => this.interrupted();
    process.setUncaughtExceptionCaptureCallback((error) => this.uncaught(error));
  }

  // `work(current)` runs as a call of its own; it calls `finish` or `fail`, now or later.
  begin(request, work) {
    const current = { id: request.id, answer: { id: request.id }, blob: NOTHING, finishing: false };
    this.current = current;
    this.session.begin();
    this.interrupts.begin(() => this.soon(current, () => work(current)));
  }

  soon(current, work) {
    this.session.pending.ours.add(soon(() => this.guard(current, work)));
  }

  guard(current, work) {
    if (this.current !== current || current.finishing) return;
    try {
      work();
    } catch (error) {
      this.fail(current, error);
    }
  }

  // A request that answers at once: `work` returns [members of the answer, blob].
  simple(request, work) {
    this.begin(request, (current) => {
      const [rest, blob = NOTHING] = work();
      Object.assign(current.answer, rest);
      current.blob = blob;
      this.finish(current, 'ok');
    });
  }

  execute(request, source) {
    this.session.tools.enabled = request.tools === true;
    this.interrupts.limit(Number(request.memory_bytes) || 0);
    this.begin(request, (current) => {
      const value = this.run(current, this.session.fileName(request.filename), decoder.decode(source));
      if (util.types.isPromise(value)) {
        // Reactions that V8 calls; an interrupt may drop them, and then ends the execution by itself.
        Promise.prototype.then.call(value, (later) => this.ran(current, later), (error) => this.fail(current, error));
      } else this.ran(current, value);
    });
  }

  // Compiles and calls the code: its value, or a promise.
  run(current, filename, source) {
    const { session } = this;
    const piece = transform(source);
    if (piece === null) return this.runUnknown(filename, source);
    const main = session.compile(piece.code, filename, -piece.offset);
    session.variables.declare(piece.names, piece.fresh);
    if (piece.functions !== null) session.compile(piece.functions, filename).runInThisContext({ displayErrors: true });
    const before = Object.getOwnPropertyDescriptor(globalThis, 'result')?.value;
    current.assigned = () => {
      const held = Object.getOwnPropertyDescriptor(globalThis, 'result');
      return held !== undefined && 'value' in held && (piece.setsResult || !Object.is(held.value, before));
    };
    current.imports = piece.imports;
    return main.runInThisContext()();
  }

  // Syntax that only V8 knows: it runs the code as a script, or says what is wrong with it.
  runUnknown(filename, source) {
    try {
      return this.session.compile(source, filename).runInThisContext();
    } catch (error) {
      if (!(error instanceof SyntaxError) || !/await|import|export/.test(error.message)) throw error;
      return this.session.compile(`${ASYNC_PREFIX}${source}\n})`, filename, -ASYNC_PREFIX.length).runInThisContext()();
    }
  }

  // The code is through; what it began may not be.
  ran(current, value) {
    current.value = value;
    this.soon(current, () => this.drain(current, 1));
  }

  drain(current, wait) {
    const { tools, pending } = this.session;
    if (!tools.busy && !pending.any()) {
      this.present(current);
      return;
    }
    // Without a reference: Node counts a timer that is running.
    after(() => this.guard(current, () => this.drain(current, Math.min(2 * wait, POLL_MAX_MS))), wait).unref();
  }

  // Value and result; this runs methods of the user's objects.
  present(current) {
    const { value } = current;
    const shown = this.session.display.rich(value);
    const go = () => {
      this.describe(current, value);
      this.finish(current, 'ok');
    };
    if (util.types.isPromise(shown)) {
      Promise.prototype.then.call(shown, () => this.guard(current, go), (error) => this.fail(current, error));
    } else go();
  }

  describe(current, value) {
    const { answer } = current;
    if (value !== undefined && !this.session.variables.isModule(value)) answer.value = describe(value, REPR_MAX);
    if (current.assigned?.() !== true) return;
    const { result } = globalThis;
    answer.result = Object.is(result, value) && answer.value !== undefined ? answer.value : describe(result, REPR_MAX);
    const told = dumpsValue(result, RESULT_JSON_MAX);
    if (told === null) return;
    answer.result_json = true;
    current.blob = told;
  }

  uncaught(error) {
    if (this.current !== null && !this.current.finishing) this.fail(this.current, error);
    else process.stderr.write(`Uncaught in the background: ${tell(error).traceback}\n`);
  }

  // In the event loop, after a signal.
  interrupted() {
    const { current } = this;
    if (current === null || current.finishing) return;
    this.finish(current, this.stop(current));
  }

  // How an execution ends that was stopped, and what of it.
  stop(current) {
    const { session } = this;
    const { exitCode } = session;
    session.pending.mend();
    if (exitCode === 0) return 'ok';
    if (exitCode !== undefined) {
      return this.tell(current, new ExitError(`the code ended with exit code ${exitCode}`), 'error');
    }
    session.pending.drop();
    if (this.interrupts.takeMemory()) {
      return this.tell(current, new MemoryLimit('the session reached its memory limit'), 'memory');
    }
    killAll(this.owned);
    return this.tell(current, new Interrupted('the execution was interrupted'), 'interrupted');
  }

  fail(current, error) {
    if (this.current !== current || current.finishing) return;
    this.finish(current, this.tell(current, error, isMemory(error) ? 'memory' : 'error'));
  }

  tell(current, error, end) {
    current.answer = { id: current.id, error: tell(error) };
    current.blob = NOTHING;
    return end;
  }

  finish(current, end) {
    if (this.current !== current || current.finishing) return;
    current.finishing = true;
    this.interrupts.protect(true);
    this.interrupts.settle((torn) => {
      if (torn && end === 'ok') end = this.stop(current);
      this.session.tools.settle(() => this.send(current, end));
    });
  }

  send(current, end) {
    const { answer, blob } = current;
    const { variables } = this.session;
    variables.imported(current.imports ?? []);
    const names = variables.changed();
    answer.end = end;
    if (names !== undefined) answer.names = names;
    this.current = null;
    this.channel.send(RESULT, dumps(answer), blob);
    this.interrupts.end();
  }
}

module.exports = { Executor };
