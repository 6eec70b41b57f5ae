// SPDX-License-Identifier: Apache-2.0
// Rich output: objects that offer representations of themselves, images, and the global function `display`.
'use strict';

// What the user's code makes of the global names is not our business.
const { Array, ArrayBuffer, JSON, Object, Promise, Symbol, TypeError, Uint8Array } = globalThis;

const { types } = require('util');
const { DISPLAY } = require('./frames.js');
const { clean, describe, dumps, dumpsValue } = require('./text.js');
const { fromBase64 } = require('./encoding.js');

const DATA_MAX = (16 << 20) - (64 << 10);
const METADATA_MAX = 32 << 10;
const BUNDLE_MAX = 32;
const METHOD = Symbol.for('Jupyter.display'); // returns {mime: data}
const MIME = /^[!-.0-~]{1,63}\/[!-.0-~]{1,63}$/;
const MAGIC = [
  ['image/png', [0x89, 0x50, 0x4e, 0x47]],
  ['image/jpeg', [0xff, 0xd8, 0xff]],
  ['image/gif', [0x47, 0x49, 0x46, 0x38]],
];

function isBytes(value) {
  return ArrayBuffer.isView(value) || types.isAnyArrayBuffer(value);
}

// A buffer of these bytes alone.
function toBuffer(value) {
  if (types.isAnyArrayBuffer(value)) return value;
  return value.buffer.slice(value.byteOffset, value.byteOffset + value.byteLength);
}

// A buffer, or null: nothing of that type can be made of it.
function encode(mime, data) {
  if (isBytes(data)) return toBuffer(data);
  if (typeof data === 'string') {
    return mime.startsWith('image/') && !mime.endsWith('xml') ? fromBase64(data).buffer : host.encode(clean(data));
  }
  const told = mime.endsWith('json') ? dumpsValue(data, DATA_MAX) : null;
  return told === null ? null : host.encode(told);
}

class Display {
  send(mime, data, metadata) {
    const bytes = encode(mime, data);
    if (bytes === null) return false;
    if (bytes.byteLength > DATA_MAX) {
      host.write(2, `display: ${mime} of ${bytes.byteLength} bytes left out, more than ${DATA_MAX}\n`);
      return true;
    }
    const header = { mime, metadata: {} };
    const told = metadata === undefined ? null : dumpsValue(metadata, METADATA_MAX);
    if (told !== null && told[0] === '{') header.metadata = JSON.parse(told);
    host.send(DISPLAY, dumps(header), bytes);
    return true;
  }

  // {mime: data} or [{mime: data}, metadata].
  bundle(told) {
    const [bundle, metadata] = Array.isArray(told) ? told : [told];
    if (bundle === null || typeof bundle !== 'object') return false;
    let found = false;
    for (const [mime, data] of Object.entries(bundle).slice(0, BUNDLE_MAX)) {
      if (mime !== 'text/plain' && MIME.test(mime)) found = this.send(mime, data, metadata?.[mime]) || found;
    }
    return found;
  }

  // Every representation that the value offers. False, or a promise of it, when there is none.
  rich(value) {
    if (value === null || typeof value !== 'object' || types.isProxy(value)) return false;
    if (isBytes(value)) {
      const bytes = new Uint8Array(toBuffer(value));
      const known = MAGIC.find(([, magic]) => magic.every((byte, at) => bytes[at] === byte));
      return known !== undefined && this.send(known[0], bytes);
    }
    const method = value[METHOD];
    if (typeof method !== 'function') return false;
    const told = method.call(value);
    if (types.isPromise(told)) return Promise.prototype.then.call(told, (later) => this.bundle(later));
    return this.bundle(told);
  }

  // display(value), or display(data, 'image/png').
  display(value, mime) {
    if (typeof mime === 'string') {
      if (!MIME.test(mime) || !this.send(mime, value)) {
        throw new TypeError(`display: no ${mime} can be made of this value`);
      }
      return undefined;
    }
    const asText = () => host.write(1, `${typeof value === 'string' ? clean(value) : describe(value)}\n`);
    const done = this.rich(value);
    if (types.isPromise(done)) return done.then((found) => (found ? undefined : void asText()));
    if (!done) asText();
    return undefined;
  }
}

module.exports = { Display };
