// SPDX-License-Identifier: Apache-2.0
// What code needs of Node's module fs: the session's own files, whole.
'use strict';

// What the user's code makes of the global names is not our business.
const { ArrayBuffer, Date, Object, String, Uint8Array } = globalThis;

const { makeParents } = require('./files.js');

const FILE_MAX = 2 ** 31;

function encodingOf(options) {
  return typeof options === 'string' ? options : options?.encoding ?? null;
}

function content(data) {
  if (ArrayBuffer.isView(data)) return data.buffer.slice(data.byteOffset, data.byteOffset + data.byteLength);
  return data instanceof ArrayBuffer ? data : String(data).toWellFormed();
}

class Stats {
  constructor({ kind, size, mode, time }) {
    Object.assign(this, { size, mode, mtimeMs: time, mtime: new Date(time) });
    Object.defineProperty(this, 'kind', { value: kind });
  }

  isFile() {
    return this.kind === 'file';
  }

  isDirectory() {
    return this.kind === 'directory';
  }

  isSymbolicLink() {
    return this.kind === 'link';
  }
}

function statusOf(path, follow) {
  try {
    return host.stat(path, follow);
  } catch (error) {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return null;
    throw error;
  }
}

function remove(path, options) {
  const found = statusOf(path, false);
  if (found === null && options?.force) return;
  if (found?.kind !== 'directory') {
    host.unlink(path);
    return;
  }
  if (options?.recursive) for (const name of host.readDirectory(path)) remove(`${path}/${name}`, options);
  host.rmdir(path);
}

const calls = {
  readFile(path, options) {
    const data = host.readFile(String(path), FILE_MAX);
    return encodingOf(options) === null ? new Uint8Array(data) : host.decode(data, 0, data.byteLength);
  },
  writeFile: (path, data) => host.writeFile(String(path), content(data), false),
  appendFile: (path, data) => host.writeFile(String(path), content(data), true),
  readdir: (path) => host.readDirectory(String(path)).sort(),
  stat: (path) => new Stats(host.stat(String(path), true)),
  lstat: (path) => new Stats(host.stat(String(path), false)),
  mkdir(path, options) {
    if (!options?.recursive) host.mkdir(String(path));
    else makeParents(`${String(path).startsWith('/') ? path : `${host.cwd()}/${path}`}/`);
  },
  rm: (path, options) => remove(String(path), options),
  rmdir: (path) => host.rmdir(String(path)),
  unlink: (path) => host.unlink(String(path)),
  rename: (from, to) => host.rename(String(from), String(to)),
  copyFile: (from, to) => host.writeFile(String(to), host.readFile(String(from), FILE_MAX), false),
};

const fs = { existsSync: (path) => statusOf(String(path), true) !== null, promises: {} };
for (const [name, call] of Object.entries(calls)) {
  fs[`${name}Sync`] = call;
  fs.promises[name] = async (...values) => call(...values);
}

module.exports = { fs };
