// SPDX-License-Identifier: Apache-2.0
// Text and JSON of the user's values, in bounded size and whatever their methods do.
'use strict';

// What the user's code makes of the global names is not our business.
const { Array, Buffer, Error, JSON, Math, Number, Object, Reflect } = globalThis;

const util = require('util');

const { inspect } = util;
const { stringify, parse } = JSON;
const REPR_MAX = 64 << 10;
const DEPTH_MAX = 48; // the host reads 64 levels; what we wrap a value in must fit as well
const NODES_MAX = 50_000;
const INTEGER_MAX = 2 ** 63;
const LONE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
const ANY_SURROGATE = /[\ud800-\udfff]/;
const NOT_ASCII = /[\u007f-\uffff]/g;
const INSPECT = { depth: 6, maxArrayLength: 1000, maxStringLength: 32 << 10, breakLength: 120, compact: 3 };

// `text` with lone surrogates replaced.
function clean(text) {
  return ANY_SURROGATE.test(text) ? text.replace(LONE, '\ufffd') : text;
}

// About `limit` characters, head and tail kept.
function cap(text, limit) {
  if (text.length <= limit) return text;
  const half = limit >> 1;
  return clean(`${text.slice(0, half)} [... ${text.length - 2 * half} characters omitted ...] ${text.slice(-half)}`);
}

function escape(character) {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

function ascii(text) {
  return Buffer.from(text.replace(NOT_ASCII, escape), 'latin1');
}

function loads(bytes) {
  const value = parse(bytes.toString('utf8'));
  if (value === null || typeof value !== 'object' || Array.isArray(value)) throw new Error('not one JSON object');
  return value;
}

// The name of a value's class.
function className(value) {
  if (value === null) return 'null';
  if (typeof value !== 'object' && typeof value !== 'function') return typeof value;
  if (util.types.isProxy(value)) return 'Proxy';
  if (typeof value === 'function') return 'Function';
  try {
    const prototype = Object.getPrototypeOf(value);
    if (prototype === null) return 'Object';
    const held = Object.getOwnPropertyDescriptor(prototype, 'constructor')?.value ?? prototype.constructor;
    const name = typeof held === 'function' ? held.name : '';
    return typeof name === 'string' && name !== '' ? cap(clean(name), 200) : 'Object';
  } catch {
    return 'Object';
  }
}

function describe(value, limit = REPR_MAX) {
  try {
    return cap(clean(inspect(value, INSPECT)), limit);
  } catch (error) {
    return `<${className(value)} object: inspecting it failed with ${className(error)}>`;
  }
}

class NotPlain extends Error {}

function plainText(text, state, isKey) {
  state.size += text.length;
  if (state.size > state.limit || (isKey && text.includes('\0'))) throw new NotPlain();
  if (ANY_SURROGATE.test(text) && clean(text) !== text) throw new NotPlain();
  return text;
}

function plainNumber(value) {
  // Large integers would be written in digits that no reader of 64 bits takes.
  if (!Number.isFinite(value) || (Number.isInteger(value) && Math.abs(value) >= INTEGER_MAX)) throw new NotPlain();
  return value;
}

function plainObject(value, state, depth) {
  const prototype = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) throw new NotPlain();
  const copy = Object.create(null);
  for (const key of Reflect.ownKeys(value)) {
    const held = Object.getOwnPropertyDescriptor(value, key);
    if (held === undefined || !held.enumerable) continue;
    if (typeof key !== 'string' || !('value' in held)) throw new NotPlain();
    copy[plainText(key, state, true)] = plain(held.value, state, depth + 1);
  }
  return copy;
}

// A copy that no method of the user's can change, or NotPlain.
function plain(value, state, depth) {
  if (depth > DEPTH_MAX || ++state.nodes > NODES_MAX) throw new NotPlain();
  if (value === null || typeof value === 'boolean') return value;
  if (typeof value === 'string') return plainText(value, state, false);
  if (typeof value === 'number') return plainNumber(value);
  if (typeof value !== 'object' || util.types.isProxy(value)) throw new NotPlain();
  if (!Array.isArray(value)) return plainObject(value, state, depth);
  if (Object.getPrototypeOf(value) !== Array.prototype || value.length > NODES_MAX) throw new NotPlain();
  const copy = [];
  for (let i = 0; i < value.length; i++) {
    const held = Object.getOwnPropertyDescriptor(value, i);
    if (held === undefined || !('value' in held)) throw new NotPlain();
    copy.push(plain(held.value, state, depth + 1));
  }
  Object.setPrototypeOf(copy, null);
  return copy;
}

// JSON.stringify would call a toJSON of the user's.
function join(value) {
  if (value === null || typeof value !== 'object') return stringify(value);
  if (Array.isArray(value)) {
    let text = '[';
    for (let i = 0; i < value.length; i++) text += (i > 0 ? ',' : '') + join(value[i]);
    return `${text}]`;
  }
  let text = '{';
  for (const key of Object.keys(value)) {
    if (value[key] !== undefined) text += `${text.length > 1 ? ',' : ''}${stringify(key)}:${join(value[key])}`;
  }
  return `${text}}`;
}

// ASCII bytes of plain data of ours whose strings went through `clean`; undefined members are left out.
function dumps(value) {
  return ascii(join(value));
}

// ASCII bytes of a user's value, or null when it has no JSON form of at most `limit` bytes.
function dumpsValue(value, limit) {
  try {
    const told = ascii(join(plain(value, { size: 0, nodes: 0, limit }, 0)));
    return told.length <= limit ? told : null;
  } catch (error) {
    if (error instanceof NotPlain) return null;
    throw error;
  }
}

module.exports = { REPR_MAX, clean, cap, dumps, loads, className, describe, dumpsValue };
