// SPDX-License-Identifier: Apache-2.0
// How an exception of the user's is told.
'use strict';

// What the user's code makes of the global names is not our business.
const { Error, String } = globalThis;

const util = require('util');
const path = require('path');
const { REPR_MAX, cap, clean, className, describe } = require('./text.js');

const MESSAGE_MAX = 16 << 10;
const NO_MEMORY = ['Array buffer allocation failed', 'ERR_MEMORY_ALLOCATION_FAILED'];
const OURS = path.dirname(__filename) + path.sep;
const ERRNO = /^E[A-Z0-9]{2,20}$/;
const FRAME = /^\s+at /;

// The code ran out of memory, or of what the session may have of it.
class MemoryLimit extends Error {
  get name() {
    return 'MemoryError';
  }
}

// process.exit() with a code that says that something went wrong.
class ExitError extends Error {
  get name() {
    return 'ExitError';
  }
}

class Interrupted extends Error {
  get name() {
    return 'Interrupted';
  }
}

function ownProperty(value, name) {
  try {
    return value[name];
  } catch {
    return undefined;
  }
}

// Without what lies between the user's code and the machine: frames of the worker and of Node's inner parts.
function strip(text) {
  const lines = text.split('\n');
  const isInner = (line) => line.includes(OURS) || /\(?node:(internal\/|vm:)/.test(line);
  const kept = lines.filter((line) => !FRAME.test(line) || !isInner(line));
  return kept.join('\n');
}

function traceback(error) {
  try {
    return cap(clean(strip(util.inspect(error, { depth: 2, maxArrayLength: 20, maxStringLength: 2000 }))), REPR_MAX);
  } catch {
    return cap(clean(strip(String(ownProperty(error, 'stack')))), REPR_MAX);
  }
}

function isError(value) {
  return util.types.isNativeError(value) || (value !== null && typeof value === 'object' && value instanceof Error);
}

// {type, message, traceback, errno}
function tell(error) {
  try {
    if (!isError(error)) {
      const shown = describe(error, MESSAGE_MAX);
      return { type: className(error), message: shown, traceback: `Uncaught ${shown}` };
    }
    const name = ownProperty(error, 'name');
    const message = ownProperty(error, 'message');
    const code = ownProperty(error, 'code');
    return {
      errno: typeof code === 'string' && ERRNO.test(code) ? code : undefined,
      type: typeof name === 'string' && name !== '' ? cap(clean(name), 200) : className(error),
      message: typeof message === 'string' ? cap(clean(message), MESSAGE_MAX) : '',
      traceback: error instanceof Interrupted || error instanceof MemoryLimit || error instanceof ExitError
        ? `${error.name}: ${error.message}` : traceback(error),
    };
  } catch {
    return { type: 'Error', message: 'an error that can not be shown', traceback: null };
  }
}

function isMemory(error) {
  if (error instanceof MemoryLimit) return true;
  return util.types.isNativeError(error) && (NO_MEMORY.includes(ownProperty(error, 'message')) ||
    NO_MEMORY.includes(ownProperty(error, 'code')));
}

module.exports = { tell, isMemory, MemoryLimit, ExitError, Interrupted };
