// SPDX-License-Identifier: Apache-2.0
// Files of a portable state: what the session's own directories hold, with modes, times and links.
'use strict';

// What the user's code makes of the global names is not our business.
const { Buffer, Error, Map, Number, Object, TypeError, process } = globalThis;

const fs = require('fs');
const path = require('path');
const { constants, tmpdir } = require('os');

const COUNT_MAX = 10_000;
const DEPTH_MAX = 64;
const OWN_SIZE = 256 << 10;
const IN_MEMORY = new Set(['tmpfs', 'ramfs', 'overlay']);
const { O_RDONLY, O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK } = fs.constants;

function failure(code, text) {
  const error = new Error(text);
  error.code = code;
  error.errno = -constants.errno[code];
  return error;
}

// Is it in the guest's own memory? What is the host's, or used by others as well, stays where it is.
function isPrivate(directory, isOurs) {
  if (!isOurs) return false;
  let best = '';
  let kind = null;
  for (const line of fs.readFileSync('/proc/self/mountinfo', 'utf8').split('\n')) {
    const fields = line.split(' ');
    const dash = fields.indexOf('-');
    if (dash < 0) continue;
    const point = fields[4].replaceAll('\\040', ' ');
    const holds = directory === point || directory.startsWith(`${point.replace(/\/+$/, '')}/`);
    if (holds && point.length >= best.length) [best, kind] = [point, fields[dash + 1]];
  }
  return IN_MEMORY.has(kind);
}

// {own: [[name, path]] of directories that are this session's alone and die with it, others: [path]}
function ownDirectories(workspace, isOurs) {
  const own = [];
  const others = [];
  const scratch = process.env.TMPDIR;
  for (const [name, given] of [['workspace', workspace], ['tmp', scratch ?? tmpdir()]]) {
    if (!fs.existsSync(given)) continue;
    const real = fs.realpathSync(given);
    if (own.some(([, known]) => real === known || real.startsWith(`${known}/`))) continue;
    if ((name === 'tmp' && scratch !== undefined) || isPrivate(real, isOurs)) own.push([name, real]);
    else others.push(real);
  }
  const isWithin = (real) => own.some(([, known]) => real === known || real.startsWith(`${known}/`));
  return { own, others: others.filter((real) => !isWithin(real)) };
}

class Gathering {
  // `parts.add(bytes)` gives the number of a part; `charge(bytes)` may throw.
  constructor(parts, charge, unsaved) {
    Object.assign(this, { parts, charge, unsaved, pack: [], packed: 0, count: 0, bytes: 0, waiting: [] });
  }

  directory(root) {
    const entries = [];
    this.walk(Buffer.from(root), '', 0, entries);
    return entries;
  }

  walk(directory, shown, depth, entries) {
    for (const name of fs.readdirSync(directory, { encoding: 'buffer' }).sort(Buffer.compare)) {
      const full = Buffer.concat([directory, Buffer.from('/'), name]);
      const status = fs.lstatSync(full, { throwIfNoEntry: false, bigint: true });
      if (status === undefined) continue;
      this.count++;
      if (this.count > COUNT_MAX || depth > DEPTH_MAX) {
        throw failure('EFBIG', `The session has more than ${COUNT_MAX} files, or ${DEPTH_MAX} levels of directories`);
      }
      const latin = name.toString('latin1');
      this.add(full, shown === '' ? latin : `${shown}/${latin}`, status, depth, entries);
    }
  }

  add(full, shown, status, depth, entries) {
    const mode = Number(status.mode) & 0o7777;
    const time = status.mtimeNs.toString();
    try {
      if (status.isDirectory()) {
        entries.push(['d', shown, mode, time]);
        this.walk(full, shown, depth + 1, entries);
      } else if (status.isSymbolicLink()) {
        entries.push(['l', shown, fs.readlinkSync(full, { encoding: 'buffer' }).toString('latin1')]);
      } else if (status.isFile()) entries.push(['f', shown, mode, time, ...this.content(full, Number(status.size))]);
      else this.unsaved.push({ name: full.toString(), type: 'special file', reason: 'it is no regular file' });
    } catch (error) {
      if (error.code === 'EFBIG' || error.code === undefined) throw error;
      this.unsaved.push({ name: full.toString(), type: 'file', reason: `it can't be read: ${error.code}` });
    }
  }

  // [size, part, offset]
  content(full, size) {
    this.charge(size);
    const fd = fs.openSync(full, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    let bytes;
    try {
      bytes = Buffer.alloc(size);
      for (let have = 0; have < size;) {
        const count = fs.readSync(fd, bytes, have, size - have, null);
        if (count === 0) break; // it has become shorter: zeros
        have += count;
      }
    } finally {
      fs.closeSync(fd);
    }
    this.bytes += size;
    if (size >= OWN_SIZE) return [size, this.parts.add(bytes), 0];
    const offset = this.packed;
    this.pack.push(bytes);
    this.packed += size;
    return [size, 0, offset];
  }

  // What small files hold together; 0: there are none.
  close() {
    return this.packed > 0 ? this.parts.add(Buffer.concat(this.pack, this.packed)) : 0;
  }
}

function inside(name) {
  if (typeof name !== 'string' || name.startsWith('/') || name.includes('\0') || name.split('/').includes('..')) {
    throw new TypeError('a file is outside of the session\'s directories');
  }
  return Buffer.from(name, 'latin1');
}

function writeFile(full, bytes, mode) {
  fs.rmSync(full, { force: true });
  const fd = fs.openSync(full, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
  try {
    for (let at = 0; at < bytes.length;) at += fs.writeSync(fd, bytes, at, bytes.length - at);
    fs.fchmodSync(fd, mode);
  } finally {
    fs.closeSync(fd);
  }
}

function restoreEntry(root, entry, content, directories) {
  const [kind, name] = entry;
  const full = Buffer.concat([Buffer.from(`${root}/`), inside(name)]);
  if (kind === 'd') {
    fs.mkdirSync(full, { recursive: true });
    directories.push([full, entry]);
  } else if (kind === 'l') {
    fs.rmSync(full, { force: true });
    fs.symlinkSync(Buffer.from(entry[2], 'latin1'), full);
  } else if (kind === 'f') {
    writeFile(full, content(entry[4], entry[5], entry[6]), entry[2]);
    setTime(full, entry[3]);
  } else throw new TypeError('an entry of files that is none');
}

function setTime(full, nanoseconds) {
  const seconds = Number(nanoseconds) / 1e9;
  fs.utimesSync(full, seconds, seconds);
}

// Puts files back into the directories of these names. `content(size, part, offset)`: bytes.
function restore(own, told, content, missing) {
  const known = new Map(own);
  for (const [name, entries] of told) {
    const root = known.get(name);
    if (root === undefined) {
      const reason = 'this session has none of its own';
      if (entries.length > 0) missing.push({ name: `files in ${name}`, type: 'directory', reason });
      continue;
    }
    const directories = [];
    for (const entry of entries) {
      try {
        restoreEntry(root, entry, content, directories);
      } catch (error) {
        if (error.code === undefined) throw error;
        missing.push({ name: path.join(root, entry[1]), type: 'file', reason: `it can't be written: ${error.code}` });
      }
    }
    for (const [full, [, , mode, time]] of directories.reverse()) { // writing into them has changed their times
      fs.chmodSync(full, mode);
      setTime(full, time);
    }
  }
}

module.exports = { ownDirectories, Gathering, restore, failure };
