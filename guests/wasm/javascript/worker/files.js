// SPDX-License-Identifier: Apache-2.0
// Files of the session's workspace, read and written for the host.
'use strict';

// What the user's code makes of the global names is not our business.
const { Error, TypeError } = globalThis;

const { clean } = require('./text.js');

const WORKSPACE = '/work';
const LIST_MAX = 10_000;
const LIST_BYTES_MAX = 3 << 20;
const PATH_MAX = 4096;
const DEPTH_MAX = 64;

function resolve(name) {
  if (typeof name !== 'string' || name.includes('\0')) throw new TypeError('path: a string without NUL is needed');
  if (name.length > PATH_MAX) {
    const error = new Error(`ENAMETOOLONG: File name too long, '${name.slice(0, 100)}'`);
    error.code = 'ENAMETOOLONG';
    throw error;
  }
  return name.startsWith('/') ? name : `${WORKSPACE}/${name}`;
}

function read(name, max) {
  return host.readFile(resolve(name), max);
}

// The directories that lead to `path`.
function makeParents(path) {
  for (let at = path.indexOf('/', 1); at > 0; at = path.indexOf('/', at + 1)) {
    const parent = path.slice(0, at);
    try {
      host.mkdir(parent);
    } catch (error) {
      if (error.code !== 'EEXIST' && error.code !== 'EROFS' && error.code !== 'EACCES') throw error;
    }
  }
}

function write(name, content) {
  const target = resolve(name);
  makeParents(target);
  host.writeFile(target, content, false);
}

function tell(path, { size, mode, time, kind }) {
  return { path, size, mode, mtime_ms: time, type: kind };
}

function status(path) {
  try {
    return host.stat(path, false);
  } catch {
    return null; // gone meanwhile, or with a name that nobody can ask for
  }
}

// {files, truncated} below `name`, sorted within each directory. Links are not followed.
function list(name) {
  const top = resolve(name);
  const own = host.stat(top, false);
  if (own.kind !== 'directory') return { files: [tell(clean(name), own)], truncated: false };
  const files = [];
  let size = 0;
  const pending = [{ directory: top, shown: name.replace(/\/+$/, ''), depth: 0 }];
  for (let next = pending.shift(); next !== undefined; next = pending.shift()) {
    for (const entry of host.readDirectory(next.directory).sort()) {
      const full = `${next.directory}/${entry}`;
      const found = status(full) ?? { size: 0, mode: 0, time: 0, kind: 'other' };
      const shown = next.shown === '' || next.shown === '.' ? entry : `${next.shown}/${entry}`;
      size += 12 * shown.length + 100;
      if (files.length === LIST_MAX || size > LIST_BYTES_MAX) return { files, truncated: true };
      files.push(tell(clean(shown), found));
      if (found.kind !== 'directory') continue;
      if (next.depth === DEPTH_MAX) return { files, truncated: true };
      pending.push({ directory: full, shown, depth: next.depth + 1 });
    }
  }
  return { files, truncated: false };
}

module.exports = { read, write, list, makeParents };
