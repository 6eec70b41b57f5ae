// SPDX-License-Identifier: Apache-2.0
// Where the host can't read the guest's standard output: another process of the same program is the worker, with pipes
// that this one reads and puts into frames. So everything that is printed is caught, by whatever prints it, and the
// control stream is out of the code's reach.
'use strict';

// What the user's code makes of the global names is not our business.
const { Buffer, Math, String, process } = globalThis;

const { spawn } = require('child_process');
const { readSync } = require('fs');
const { totalmem } = require('os');
const frames = require('./frames.js');
const { dumps } = require('./text.js');

const CONTROL = 3; // the worker's
const CHUNK = 64 << 10;
const ROUNDS = 64; // more than the pipes hold: something that goes on printing must not keep a result here
const { reallyExit } = process;

class Relay {
  constructor(channel, worker) {
    this.channel = channel;
    this.worker = worker;
    this.buffer = Buffer.allocUnsafe(CHUNK);
    this.outputs = [[worker.stdout, frames.STDOUT], [worker.stderr, frames.STDERR]];
  }

  start(hello, payload) {
    const control = this.worker.stdio[CONTROL];
    if (payload !== null) control.write(payload);
    control.write(frames.encode(frames.HELLO, dumps(hello), null));
    const splitter = new frames.Splitter(null);
    control.on('data', (chunk) => {
      splitter.push(chunk);
      for (let next = splitter.next(); next !== null; next = splitter.next()) this.forward(next);
    });
    control.on('error', () => {}); // its end comes as `exit`
    for (const [stream, kind] of this.outputs) {
      stream.on('data', (chunk) => this.channel.send(kind, null, chunk));
      stream.on('error', () => {});
    }
    const ended = (error) => this.end(error === null ? 0 : 1);
    this.channel.listen((kind, content) => this.request(control, kind, content), ended);
  }

  request(control, kind, content) {
    const { socket } = this.channel;
    if (control.write(frames.encode(kind, null, content))) return;
    socket.pause();
    control.once('drain', () => socket.resume());
  }

  forward({ kind, whole }) {
    if (kind === frames.RESULT) this.drain();
    frames.writeAll(this.channel.writeFd, whole);
  }

  // What the code has printed is in the pipes when its result comes: it goes first.
  drain() {
    for (const [stream, kind] of this.outputs) {
      const fd = stream._handle?.fd;
      for (let round = 0; fd >= 0 && round < ROUNDS; round++) {
        const count = this.read(fd);
        if (count === 0) break;
        this.channel.send(kind, null, this.buffer.subarray(0, count));
      }
    }
  }

  // Bytes that are there now; 0 if there are none.
  read(fd) {
    try {
      return readSync(fd, this.buffer, 0, CHUNK, null);
    } catch {
      return 0;
    }
  }

  end(code) {
    this.worker.kill('SIGKILL');
    reallyExit.call(process, code);
  }
}

// Whose are the processes of this namespace? With process 1 of it, or the child of an engine's init, all are ours; one
// that was added to a container shares it with others.
function ownedProcesses() {
  if (process.pid === 1) return 'all';
  return process.ppid === 1 ? 'others' : 'none';
}

// V8's heap may be as large as the container's memory: it ends the whole process at its own limit.
function heapFlags() {
  const bytes = process.constrainedMemory?.() ?? 0;
  return bytes > 0 && bytes < totalmem() ? [`--max-old-space-size=${Math.max(Math.floor(bytes / 2 ** 20), 64)}`] : [];
}

function relay(channel, hello, payload) {
  const program = payload === null ? [require.resolve('./worker.js')] : [];
  const worker = spawn(process.execPath, [...heapFlags(), ...process.execArgv, ...program], {
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
    env: { ...process.env, SBX_CONTROL_FD: String(CONTROL) },
  });
  const relayed = new Relay(channel, worker);
  process.on('SIGINT', () => worker.kill('SIGINT'));
  worker.on('error', (error) => {
    process.stderr.write(`can't start the worker: ${error.message}\n`);
    relayed.end(1);
  });
  worker.on('exit', (code, signal) => {
    relayed.drain();
    relayed.end(code ?? 128 + (require('os').constants.signals[signal] ?? 0));
  });
  relayed.start({ ...hello, framed_output: false, owned_processes: ownedProcesses() }, payload);
}

module.exports = { relay };
