// SPDX-License-Identifier: Apache-2.0
// Text and bytes: UTF-8 by C, base64 here.
'use strict';

// What the user's code makes of the global names is not our business.
const { ArrayBuffer, Error, Map, RangeError, String, TypeError, Uint8Array } = globalThis;

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const VALUES = new Map([...ALPHABET].map((letter, value) => [letter, value]));

function toBase64(bytes) {
  let out = '';
  for (let at = 0; at < bytes.length; at += 3) {
    const word = (bytes[at] << 16) | ((bytes[at + 1] ?? 0) << 8) | (bytes[at + 2] ?? 0);
    const left = bytes.length - at;
    out += ALPHABET[word >> 18] + ALPHABET[(word >> 12) & 63] + (left > 1 ? ALPHABET[(word >> 6) & 63] : '=') +
      (left > 2 ? ALPHABET[word & 63] : '=');
  }
  return out;
}

function fromBase64(text) {
  const letters = text.replace(/\s+/g, '').replace(/=+$/, '').replaceAll('-', '+').replaceAll('_', '/');
  const bytes = new Uint8Array(Math.floor(letters.length * 3 / 4));
  let word = 0;
  let at = 0;
  for (let i = 0; i < letters.length; i++) {
    const value = VALUES.get(letters[i]);
    if (value === undefined) throw new TypeError('not base64');
    word = (word << 6) | value;
    if (i % 4 > 0) bytes[at++] = (word >> (6 - 2 * (i % 4))) & 255;
  }
  return bytes;
}

const { Math } = globalThis;

class TextEncoder {
  get encoding() {
    return 'utf-8';
  }

  encode(text = '') {
    return new Uint8Array(host.encode(String(text).toWellFormed()));
  }
}

class TextDecoder {
  constructor(label = 'utf-8') {
    if (!/^utf-?8$/i.test(label)) throw new RangeError(`TextDecoder: ${label} is not here, only utf-8`);
  }

  get encoding() {
    return 'utf-8';
  }

  decode(bytes = new Uint8Array()) {
    if (ArrayBuffer.isView(bytes)) return host.decode(bytes.buffer, bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
    return host.decode(bytes, 0, bytes.byteLength);
  }
}

function btoa(text) {
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) {
    if (text.charCodeAt(i) > 255) throw new Error('btoa: a character beyond U+00FF');
    bytes[i] = text.charCodeAt(i);
  }
  return toBase64(bytes);
}

function atob(text) {
  let out = '';
  for (const byte of fromBase64(String(text))) out += String.fromCharCode(byte);
  return out;
}

module.exports = { toBase64, fromBase64, TextEncoder, TextDecoder, atob, btoa };
