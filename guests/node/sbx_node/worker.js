// SPDX-License-Identifier: Apache-2.0
// The worker's entry point: answers one request after another until the host closes the stream.
//
// To be run with node --expose-internals (its parser, its timers), --no-force-async-hooks-checks (an interrupt leaves
// calls without their ends) and --experimental-vm-modules (import() before Node 20.10). SBX_CONTROL_FD: "3", or "0,1"
// for a stream that is two descriptors.
'use strict';

// What the user's code makes of the global names is not our business.
const { Array, Map, Math, Number, Object, Promise, String, process } = globalThis;

const { writeSync } = require('fs');
const { resolve } = require('path');
const { pathToFileURL } = require('url');
const frames = require('./frames.js');
const files = require('./files.js');
const { dumps, loads } = require('./text.js');
const { Interrupts } = require('./interrupts.js');
const { Session } = require('./session.js');
const { Executor } = require('./execute.js');
const { relay } = require('./relay.js');
const { States } = require('./states.js');
const { failure } = require('./states_files.js');

const PROTOCOL = 1;
const FILE_MAX = 64 << 20;
const { reallyExit } = process;

function end(error) {
  if (error !== null) writeSync(2, `the worker ends: ${error.message}\n`);
  reallyExit.call(process, error === null ? 0 : 1);
}

class Worker {
  constructor(channel, hello) {
    // Whose are the other processes here? The relay knows, if there is one.
    const owned = hello.owned_processes ?? (process.pid === 1 ? 'all' : 'none');
    this.channel = channel;
    this.interrupts = new Interrupts(owned === 'all');
    this.session = new Session(channel, this.interrupts);
    this.session.isOurs = owned !== 'none';
    this.states = new States(this.session);
    this.executor = new Executor(channel, this.session, this.interrupts, owned);
    this.handlers = {
      [frames.EXEC]: (payload) => this.exec(payload),
      [frames.GET]: (payload) => this.get(loads(payload)),
      [frames.SET]: (payload) => this.set(loads(payload)),
      [frames.CLEAR]: (payload) => this.clear(loads(payload)),
      [frames.FILE_READ]: (payload) => this.fileRead(loads(payload)),
      [frames.FILE_WRITE]: (payload) => this.fileWrite(payload),
      [frames.FILE_LIST]: (payload) => this.fileList(loads(payload)),
      [frames.SAVE]: (payload) => this.save(loads(payload)),
      [frames.GIVE_STATE]: (payload) => this.states.take(payload),
      [frames.RESTORE]: (payload) => this.restore(loads(payload)),
      [frames.TOOL_RESULT]: (payload) => this.session.tools.answered(payload),
    };
  }

  serve() {
    const features = ['display', 'files', 'tools', 'states'];
    const { versions } = process;
    this.channel.listen((kind, payload) => this.handlers[kind](payload), (error) => end(error));
    this.interrupts.wait();
    this.channel.send(frames.READY, dumps({
      protocol: PROTOCOL, runtime: 'node', version: versions.node, implementation: 'v8', features,
    }));
  }

  exec(payload) {
    const [header, source] = frames.split(payload);
    this.session.fresh = false;
    this.executor.execute(loads(header), source);
  }

  names() {
    const { variables } = this.session;
    variables.told = variables.names();
    return { names: variables.told };
  }

  get(request) {
    const wanted = Array.isArray(request.names) ? request.names : null;
    this.executor.simple(request, () => [this.session.variables.tell(wanted)]);
  }

  set(request) {
    const { describe } = require('./text.js');
    this.executor.simple(request, () => {
      this.session.variables.set(request.name, request.value);
      return [{ repr: describe(request.value), ...this.names() }];
    });
  }

  clear(request) {
    this.executor.simple(request, () => {
      this.session.clear();
      return [this.names()];
    });
  }

  save(request) {
    this.executor.simple(request, () => {
      const [answer, parts] = this.states.save(request);
      this.interrupts.protect(true); // no frame is torn apart
      this.states.send(this.channel, parts);
      return [answer];
    });
  }

  // A state that is none is told as such, whatever it was that did not fit.
  restore(request) {
    const { executor, states } = this;
    const refuse = (current, error) => {
      const isTold = typeof error?.code === 'string' && /^E[A-Z]+$/.test(error.code);
      const why = `This is no state of a session: ${String(error?.message).slice(0, 200)}`;
      executor.fail(current, isTold ? error : failure('EBADMSG', why));
    };
    executor.begin(request, (current) => {
      let opened;
      let waiting;
      try {
        opened = states.open(request);
        waiting = states.imports(opened.table).map((path) => this.importPath(path));
      } catch (error) {
        refuse(current, error);
        return;
      }
      const build = (found) => {
        try {
          Object.assign(current.answer, states.build(opened, new Map(found.filter((item) => item !== null))));
          executor.finish(current, 'ok');
        } catch (error) {
          refuse(current, error);
        }
      };
      if (waiting.length === 0) build([]);
      else {
        const then = (found) => executor.guard(current, () => build(found));
        Promise.prototype.then.call(Promise.all(waiting), then, (error) => refuse(current, error));
      }
    });
  }

  // [path, namespace] of a module; null: it is not here.
  importPath(path) {
    const name = String(path).slice(2).replaceAll('|', '/');
    const load = this.session.compile(`(name) => import(name)`, '<restored>').runInThisContext();
    const url = String(path).startsWith('f:') ? pathToFileURL(resolve(this.session.workspace, name)).href : name;
    return Promise.prototype.then.call(load(url), (found) => [path, found], () => null);
  }

  fileRead(request) {
    this.executor.simple(request, () => {
      const content = files.read(this.session.workspace, request.path, Math.min(request.max_bytes, FILE_MAX));
      return [{ size: content.length }, content];
    });
  }

  fileWrite(payload) {
    const [header, content] = frames.split(payload);
    const request = loads(header);
    this.executor.simple(request, () => {
      files.write(this.session.workspace, request.path, content);
      return [{ size: content.length }];
    });
  }

  fileList(request) {
    this.executor.simple(request, () => [files.list(this.session.workspace, request.path)]);
  }
}

// `payload`: how this program came here, if not from files; the relay hands it on.
function main(payload = null) {
  const numbers = process.env.SBX_CONTROL_FD.split(',').map(Number);
  delete process.env.SBX_CONTROL_FD;
  if (process.env.OPENSSL_CONF === '/dev/null') delete process.env.OPENSSL_CONF; // it was for this start alone
  const channel = new frames.Channel(numbers[0], numbers[numbers.length - 1]);
  const hello = channel.receiveHello();
  if (hello === null) reallyExit.call(process, 0);
  const told = loads(hello);
  if (told.framed_output === true) relay(channel, told, payload);
  else new Worker(channel, told).serve();
}

module.exports = { main };
if (require.main === module) main(require.payload);
