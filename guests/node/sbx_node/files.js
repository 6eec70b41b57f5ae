// SPDX-License-Identifier: Apache-2.0
// Files of the session's workspace, read and written for the host, which never resolves a path of a guest itself.
'use strict';

// What the user's code makes of the global names is not our business.
const { Buffer, Error, Math, TypeError } = globalThis;

const fs = require('fs');
const path = require('path');
const { constants } = require('os');
const { clean } = require('./text.js');

const { openSync, closeSync, fstatSync, lstatSync, readSync, writeSync, ftruncateSync, mkdirSync, opendirSync } = fs;
const { O_RDONLY, O_WRONLY, O_CREAT, O_NONBLOCK, O_NOCTTY } = fs.constants;
const FLAGS = O_NONBLOCK | O_NOCTTY; // a FIFO that nobody has open must not keep us waiting
const LIST_MAX = 10_000;
const LIST_BYTES_MAX = 3 << 20;
const PATH_MAX = 4096;
const DEPTH_MAX = 64;
const CHUNK = 256 << 10;

function failure(code, text, name) {
  const error = new Error(`${text}: '${name}'`);
  error.code = code;
  error.errno = -constants.errno[code];
  return error;
}

function resolve(workspace, name) {
  if (typeof name !== 'string' || name.includes('\0')) throw new TypeError('path: a string without NUL is needed');
  if (name.length > PATH_MAX) throw failure('ENAMETOOLONG', 'File name too long', name.slice(0, 100));
  return path.isAbsolute(name) ? name : `${workspace}/${name}`; // the kernel follows links and dots, not we
}

// Calls `use(descriptor, status)` for a regular file.
function withRegular(name, flags, use) {
  const fd = openSync(name, flags | FLAGS, 0o644);
  try {
    const status = fstatSync(fd);
    if (status.isDirectory()) throw failure('EISDIR', 'Is a directory', name);
    if (!status.isFile()) throw failure('EINVAL', 'Not a regular file', name);
    return use(fd, status);
  } finally {
    closeSync(fd);
  }
}

function read(workspace, name, max) {
  const target = resolve(workspace, name);
  const tooLarge = () => failure('EFBIG', `Larger than ${max} bytes`, target);
  return withRegular(target, O_RDONLY, (fd, status) => {
    if (status.size > max) throw tooLarge();
    let content = Buffer.allocUnsafe(status.size + 1); // one more shows whether there is more
    let have = 0;
    for (;;) {
      const count = readSync(fd, content, have, content.length - have, null);
      if (count === 0) return content.subarray(0, have);
      have += count;
      if (have > max) throw tooLarge();
      // It grew, or is one of those that tell no size.
      if (have === content.length) content = Buffer.concat([content, Buffer.alloc(Math.min(CHUNK, max + 1 - have))]);
    }
  });
}

function write(workspace, name, content) {
  const target = resolve(workspace, name);
  mkdirSync(path.dirname(target), { recursive: true });
  withRegular(target, O_WRONLY | O_CREAT, (fd) => {
    ftruncateSync(fd, 0);
    for (let at = 0; at < content.length;) at += writeSync(fd, content, at, content.length - at);
  });
}

function kindOf(status) {
  if (status.isFile()) return 'file';
  if (status.isDirectory()) return 'directory';
  return status.isSymbolicLink() ? 'link' : 'other';
}

function tell(name, status) {
  const { size, mode, mtimeMs } = status;
  return { path: name, size, mode: mode & 0o7777, mtime_ms: Math.floor(mtimeMs), type: kindOf(status) };
}

// Names of a directory as bytes, sorted, at most one more than can be told.
function namesOf(directory) {
  const opened = opendirSync(directory, { encoding: 'buffer' });
  const names = [];
  try {
    for (let entry = opened.readSync(); entry !== null && names.length <= LIST_MAX; entry = opened.readSync()) {
      names.push(Buffer.from(entry.name));
    }
  } finally {
    opened.closeSync();
  }
  return names.sort(Buffer.compare);
}

// {files, truncated} below `name`, sorted within each directory. Links are not followed. What has a name that is not
// UTF-8 is told as "other": nobody can ask for it by that name.
function list(workspace, name) {
  const top = resolve(workspace, name);
  const status = lstatSync(top);
  if (!status.isDirectory()) return { files: [tell(clean(name), status)], truncated: false };
  const files = [];
  let size = 0;
  const pending = [{ directory: Buffer.from(top), shown: name.replace(/\/+$/, ''), depth: 0 }];
  for (let next = pending.shift(); next !== undefined; next = pending.shift()) {
    let names;
    try {
      names = namesOf(next.directory);
    } catch (error) {
      if (next.depth === 0) throw error;
      continue;
    }
    for (const bytes of names) {
      const full = Buffer.concat([next.directory, Buffer.from('/'), bytes]);
      const found = lstatSync(full, { throwIfNoEntry: false });
      if (found === undefined) continue; // gone meanwhile
      const text = bytes.toString('utf8');
      const shown = next.shown === '' || next.shown === '.' ? text : `${next.shown}/${text}`;
      size += 12 * shown.length + 100;
      if (files.length === LIST_MAX || size > LIST_BYTES_MAX) return { files, truncated: true };
      const item = tell(shown, found);
      if (!Buffer.from(text).equals(bytes)) item.type = 'other';
      files.push(item);
      if (found.isDirectory()) {
        if (next.depth === DEPTH_MAX) return { files, truncated: true };
        pending.push({ directory: full, shown, depth: next.depth + 1 });
      }
    }
  }
  return { files, truncated: false };
}

module.exports = { read, write, list };
