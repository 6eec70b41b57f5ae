// SPDX-License-Identifier: Apache-2.0
// Standard streams of our own: what is printed is in the pipe when print returns, so that a killed guest loses none of
// it and it stands in order with what other processes print.
'use strict';

// What the user's code makes of the global names is not our business.
const { Object, process, console } = globalThis;

const { Writable, Readable } = require('stream');
const { writeAll } = require('./frames.js');

const { Console } = console;

class Output extends Writable {
  constructor(fd) {
    super({ decodeStrings: true, emitClose: false });
    this.fd = fd;
    this._isStdio = true;
    this.on('error', () => {});
  }

  _write(chunk, _encoding, done) {
    try {
      writeAll(this.fd, chunk);
      done();
    } catch (error) {
      done(error);
    }
  }
}

class NoInput extends Readable {
  constructor() {
    super();
    this.fd = 0;
  }

  _read() {
    this.push(null);
  }
}

class Streams {
  constructor() {
    this.out = null;
    this.err = null;
    this.in = null;
    this.console = null;
  }

  // Undoes what an execution did to them: closed, replaced, or with listeners and settings of its own.
  restore() {
    if (this.out === null || this.out.writableEnded || this.out.destroyed) this.out = new Output(1);
    if (this.err === null || this.err.writableEnded || this.err.destroyed) this.err = new Output(2);
    const used = this.in === null || this.in.readableEnded || this.in.destroyed || this.in.readableFlowing;
    if (used) this.in = new NoInput();
    for (const [name, stream] of [['stdin', this.in], ['stdout', this.out], ['stderr', this.err]]) {
      const held = Object.getOwnPropertyDescriptor(process, name);
      if (held !== undefined && held.value === stream) continue;
      Object.defineProperty(process, name, { value: stream, writable: true, configurable: true, enumerable: true });
    }
    if (this.console === null || this.console.stream !== this.out) {
      const made = new Console({ stdout: this.out, stderr: this.err, inspectOptions: { depth: 4 } });
      this.console = { made, stream: this.out };
    }
    const { made } = this.console;
    for (const name of Object.keys(made)) {
      if (typeof made[name] === 'function' && console[name] !== made[name]) console[name] = made[name];
    }
  }
}

module.exports = { Streams };
