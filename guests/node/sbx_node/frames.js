// SPDX-License-Identifier: Apache-2.0
// Frames on the control descriptor: u32 length, u8 type, payload. See docs/guest-protocol.md.
'use strict';

// What the user's code makes of the global names is not our business.
const { Atomics, Buffer, Error, Int32Array, Map, SharedArrayBuffer } = globalThis;

const { readSync, writeSync } = require('fs');
const { Socket } = require('net');

const TYPES = {
  HELLO: 0x01, EXEC: 0x02, GET: 0x03, SET: 0x04, CLEAR: 0x05, FILE_READ: 0x06, FILE_WRITE: 0x07, FILE_LIST: 0x08,
  SAVE: 0x09, RESTORE: 0x0a, TOOL_RESULT: 0x0b, GIVE_STATE: 0x0c,
  READY: 0x81, STDOUT: 0x82, STDERR: 0x83, DISPLAY: 0x84, TOOL_CALL: 0x85, RESULT: 0x86, STATE: 0x87,
};
const HEADER_SIZE = 5;
const MIB = 1 << 20;
// The largest payload of each type that the host may send.
const CAPS = new Map([
  [TYPES.HELLO, 64 << 10], [TYPES.EXEC, 17 * MIB], [TYPES.GET, 64 << 10], [TYPES.SET, 17 * MIB],
  [TYPES.CLEAR, 4 << 10], [TYPES.FILE_READ, 64 << 10], [TYPES.FILE_WRITE, 65 * MIB], [TYPES.FILE_LIST, 64 << 10],
  [TYPES.SAVE, 64 << 10], [TYPES.RESTORE, 64 << 10], [TYPES.TOOL_RESULT, 17 * MIB], [TYPES.GIVE_STATE, 17 * MIB],
]);
const NO_ROOM = 'EAGAIN';
const PAUSE_MS = 1;
const pause = new Int32Array(new SharedArrayBuffer(4));

// Waits a moment: nothing in the standard library waits for one descriptor without the event loop.
function rest() {
  Atomics.wait(pause, 0, 0, PAUSE_MS);
}

// All of the bytes, whether the descriptor blocks or not.
function writeAll(fd, bytes) {
  for (let at = 0; at < bytes.length;) {
    try {
      at += writeSync(fd, bytes, at, bytes.length - at);
    } catch (error) {
      if (error.code !== NO_ROOM) throw error;
      rest();
    }
  }
}

// `size` bytes, or null at the end of the stream.
function readAll(fd, size) {
  const bytes = Buffer.allocUnsafe(size);
  for (let have = 0; have < size;) {
    try {
      const count = readSync(fd, bytes, have, size - have, null);
      if (count === 0) return null;
      have += count;
    } catch (error) {
      if (error.code !== NO_ROOM) throw error;
      rest();
    }
  }
  return bytes;
}

function frame(kind, parts) {
  const size = parts.reduce((sum, part) => sum + part.length, 0);
  const header = Buffer.allocUnsafe(HEADER_SIZE);
  header.writeUInt32LE(size, 0);
  header[4] = kind;
  return Buffer.concat([header, ...parts], HEADER_SIZE + size);
}

// `text`: bytes of JSON, null for a frame of bytes alone; `blob`: null for a frame of JSON alone.
function encode(kind, text, blob) {
  if (blob === null) return frame(kind, [text]);
  if (text === null) return frame(kind, [blob]);
  const length = Buffer.allocUnsafe(4);
  length.writeUInt32LE(text.length, 0);
  return frame(kind, [length, text, blob]);
}

// [JSON part, blob] of a payload that has both.
function split(payload) {
  const size = payload.length >= 4 ? payload.readUInt32LE(0) : -1;
  if (size < 0 || size > payload.length - 4) throw new Error('JSON part longer than its frame');
  return [payload.subarray(4, 4 + size), payload.subarray(4 + size)];
}

// Cuts a stream of bytes into frames.
class Splitter {
  constructor(caps) {
    this.caps = caps;
    this.chunks = [];
    this.have = 0;
    this.need = HEADER_SIZE;
  }

  push(chunk) {
    this.chunks.push(chunk);
    this.have += chunk.length;
  }

  // {kind, payload, whole} or null. A frame that was not asked for is an error.
  next() {
    if (this.have < this.need) return null;
    const data = this.chunks.length === 1 ? this.chunks[0] : Buffer.concat(this.chunks, this.have);
    this.chunks = [data];
    const size = data.readUInt32LE(0);
    const kind = data[4];
    if (this.caps !== null && !(size <= this.caps.get(kind))) {
      throw new Error(`frame of type 0x${kind.toString(16)} and ${size} bytes`);
    }
    const end = HEADER_SIZE + size;
    if (data.length < end) {
      this.need = end;
      return null;
    }
    this.have = data.length - end;
    this.chunks = this.have > 0 ? [data.subarray(end)] : [];
    this.need = HEADER_SIZE;
    return { kind, payload: data.subarray(HEADER_SIZE, end), whole: data.subarray(0, end) };
  }
}

// Both directions of the control stream. The first frame is taken without the event loop.
class Channel {
  constructor(readFd, writeFd) {
    this.readFd = readFd;
    this.writeFd = writeFd;
  }

  // The payload of `hello`; null when the host closed its end before.
  receiveHello() {
    const header = readAll(this.readFd, HEADER_SIZE);
    if (header === null) return null;
    const size = header.readUInt32LE(0);
    if (header[4] !== TYPES.HELLO || size > CAPS.get(TYPES.HELLO)) throw new Error('the first frame is not `hello`');
    return readAll(this.readFd, size);
  }

  // From now on `take(kind, payload)` is called for each frame, and `ended(error)` when the host closed its end (null),
  // or broke the protocol.
  listen(take, ended) {
    const splitter = new Splitter(CAPS);
    const read = (chunk) => {
      splitter.push(chunk);
      for (let next = splitter.next(); next !== null; next = splitter.next()) take(next.kind, next.payload);
    };
    const socket = new Socket({ fd: this.readFd, readable: true, writable: false, allowHalfOpen: true });
    socket.on('data', (chunk) => {
      try {
        read(chunk);
      } catch (error) {
        ended(error);
      }
    });
    socket.on('error', ended);
    socket.on('end', () => ended(null));
    this.socket = socket;
  }

  send(kind, text, blob = null) {
    writeAll(this.writeFd, encode(kind, text, blob));
  }
}

module.exports = { ...TYPES, CAPS, Channel, Splitter, encode, split, writeAll, readAll, rest };
