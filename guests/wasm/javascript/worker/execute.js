// SPDX-License-Identifier: Apache-2.0
// One request at a time: runs it, waits for what it began, and tells how it ended. An interrupt throws the whole call
// away, and C calls `stopped`.
'use strict';

// What the user's code makes of the global names is not our business.
const { Error, Map, Object } = globalThis;

const { RESULT, TOOL_RESULT } = require('./frames.js');
const { REPR_MAX, describe, dumps, dumpsValue } = require('./text.js');
const { tell, isMemory, ExitError, Interrupted, MemoryLimit } = require('./errors.js');

const RESULT_JSON_MAX = 1 << 20;

class Executor {
  constructor(session) {
    this.session = session;
    this.current = null; // the request that is under way
    this.unhandled = new Map(); // promises that were rejected, and nobody looks at them: reasons
  }

  begin(request) {
    this.session.restoreGlobals();
    this.session.exitCode = undefined;
    this.unhandled.clear();
    this.current = { id: request.id, answer: { id: request.id }, blob: '' };
    return this.current;
  }

  // A request that answers at once: `work` returns [members of the answer, blob].
  simple(request, work) {
    const current = this.begin(request);
    this.attempt(current, () => {
      const [rest, blob = ''] = work();
      Object.assign(current.answer, rest);
      current.blob = blob;
    });
  }

  execute(request, source) {
    const { session } = this;
    const current = this.begin(request);
    session.tools.enabled = request.tools === true;
    this.attempt(current, () => {
      const before = Object.getOwnPropertyDescriptor(globalThis, 'result')?.value;
      const value = this.run(source, session.fileName(request.filename));
      host.settle();
      this.describe(current, value, before, /\bresult\b/.test(source));
    });
  }

  // `work`, then the answer; an error of the user's is one.
  attempt(current, work) {
    let end = 'ok';
    try {
      work();
    } catch (error) {
      end = this.failed(current, error);
    }
    host.shield();
    this.finish(current, end);
  }

  // The value of the code when all that it began has ended.
  run(source, filename) {
    const value = this.evaluate(source.startsWith('#!') ? `//${source}` : source, filename);
    const { tools, timers } = this.session;
    for (;;) {
      host.runJobs();
      for (const reason of this.unhandled.values()) throw reason;
      const told = host.promise(value);
      if (told?.state !== 'pending' && !tools.busy && !timers.hasFinite) return told === null ? value : this.take(told);
      if (tools.busy) this.hear();
      else if (!timers.step()) throw new Error('the code awaits a promise that nothing will settle');
    }
  }

  take(told) {
    if (told.state === 'rejected') throw told.value;
    return told.value;
  }

  // The code's value, or a promise of it. `{a: 1}` is an object, not a block with a label.
  evaluate(source, filename) {
    const isAsync = /\bawait\b/.test(source);
    const wrapped = `(${source}\n)`;
    const isObject = /^\s*\{/.test(source) && !/;\s*$/.test(source) && host.compiles(wrapped, isAsync);
    const value = host.evaluate(isObject ? wrapped : source, filename, isAsync);
    return isAsync ? this.valueOf(value) : value;
  }

  // An async script's promise is one of {value}.
  async valueOf(promise) {
    return (await promise).value;
  }

  // The host's answer to a call.
  hear() {
    const frame = host.receive();
    if (frame === null) throw new Error('the host has gone');
    if (frame.type !== TOOL_RESULT) throw new Error(`a frame of type ${frame.type} instead of a tool's result`);
    this.session.tools.answered(frame.data);
  }

  describe(current, value, before, mentioned) {
    const { answer } = current;
    const shown = this.session.display.rich(value);
    if (host.promise(shown) !== null) {
      host.runJobs();
      this.take(host.promise(shown));
    }
    if (value !== undefined && !this.session.variables.isModule(value)) answer.value = describe(value, REPR_MAX);
    const held = Object.getOwnPropertyDescriptor(globalThis, 'result');
    if (held === undefined || !('value' in held) || (!mentioned && Object.is(held.value, before))) return;
    answer.result = describe(held.value, REPR_MAX);
    const told = dumpsValue(held.value, RESULT_JSON_MAX);
    if (told === null) return;
    answer.result_json = true;
    current.blob = told;
  }

  rejected(promise, reason, isHandled) {
    if (isHandled) this.unhandled.delete(promise);
    else this.unhandled.set(promise, reason);
  }

  // How an execution ends that threw this.
  failed(current, error) {
    if (host.isInterrupt(error)) return this.interrupted(current);
    if (host.isExhausted() && (error === null || isMemory(error) || error?.message === 'out of memory')) {
      return this.told(current, 'memory', new MemoryLimit('the session reached its memory limit'));
    }
    return this.told(current, 'error', error);
  }

  interrupted(current) {
    const { exitCode } = this.session;
    this.session.timers.drop();
    if (exitCode === 0) return 'ok';
    if (exitCode !== undefined) {
      return this.told(current, 'error', new ExitError(`the code ended with exit code ${exitCode}`));
    }
    return this.told(current, 'interrupted', new Interrupted('the execution was interrupted'));
  }

  told(current, end, error) {
    current.answer = { id: current.id, error: tell(error) };
    current.blob = '';
    return end;
  }

  // From C: the call of `request` was thrown away.
  stopped(isInterrupt, error) {
    const { current } = this;
    if (current === null) throw error;
    this.finish(current, isInterrupt ? this.interrupted(current) : this.failed(current, error));
  }

  // A call that the host has not answered yet is waited for: its answer would be taken for a request.
  finish(current, end) {
    const { answer, blob } = current;
    const { tools } = this.session;
    let settled = false;
    host.settle();
    tools.settle(() => {
      settled = true;
    });
    while (!settled) this.hear();
    const names = this.session.changedNames();
    answer.end = end;
    if (names !== undefined) answer.names = names;
    this.current = null;
    host.send(RESULT, dumps(answer), blob);
  }
}

module.exports = { Executor };
