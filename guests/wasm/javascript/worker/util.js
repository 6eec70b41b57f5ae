// SPDX-License-Identifier: Apache-2.0
// Values as text, as Node's util.inspect shows them, and what kind of values they are.
'use strict';

// What the user's code makes of the global names is not our business.
const { Array, ArrayBuffer, BigInt, Boolean, Date, Error, JSON, Map, Number, Object, Reflect, Set, String, Symbol } =
  globalThis;

const DEFAULTS = { depth: 2, maxArrayLength: 100, maxStringLength: 10000, breakLength: 80 };
const LINE_MAX = 72;
const KEYS_MAX = 1000;
const STACK_MAX = 20; // lines
const CUSTOM = Symbol.for('nodejs.util.inspect.custom');
const IDENTIFIER = /^[A-Za-z_$][\w$]*$/;
const ESCAPES = new Map([['\n', '\\n'], ['\r', '\\r'], ['\t', '\\t'], ['\b', '\\b'], ['\f', '\\f'], ['\v', '\\v'],
  ['\\', '\\\\']]);
const TYPED = /^(?:(?:Big)?(?:Int|Uint)(?:8|16|32|64)|Uint8Clamped|Float(?:16|32|64))(?:Clamped)?Array$/;
const { classOf } = host;
const { forEach: eachOfMap } = Map.prototype;
const { forEach: eachOfSet } = Set.prototype;
const sizeOfMap = Object.getOwnPropertyDescriptor(Map.prototype, 'size').get;
const sizeOfSet = Object.getOwnPropertyDescriptor(Set.prototype, 'size').get;

const types = {
  isProxy: (value) => classOf(value) === 'Proxy',
  isPromise: (value) => classOf(value) === 'Promise',
  isNativeError: (value) => classOf(value) === 'Error',
  isModuleNamespaceObject: (value) => classOf(value) === 'Module',
  isAnyArrayBuffer: (value) => classOf(value) === 'ArrayBuffer' || classOf(value) === 'SharedArrayBuffer',
};

function quote(text, limit) {
  const shown = text.length > limit ? text.slice(0, limit) : text;
  const mark = !shown.includes("'") ? "'" : !shown.includes('"') ? '"' : !shown.includes('`') ? '`' : "'";
  // eslint-disable-next-line no-control-regex
  const escaped = shown.replace(/[\x00-\x1f\x7f\\]/g, (character) => ESCAPES.get(character) ??
    `\\x${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`);
  const quoted = mark + (mark === "'" ? escaped.replaceAll("'", "\\'") : escaped) + mark;
  const more = text.length - shown.length;
  return more > 0 ? `${quoted}... ${more} more character${more > 1 ? 's' : ''}` : quoted;
}

function primitive(value, options) {
  if (typeof value === 'string') return quote(value, options.maxStringLength);
  if (Object.is(value, -0)) return '-0';
  return typeof value === 'bigint' ? `${value}n` : String(value);
}

function constructorName(value) {
  const prototype = Object.getPrototypeOf(value);
  if (prototype === null) return null;
  const held = Object.getOwnPropertyDescriptor(prototype, 'constructor');
  const made = held !== undefined && 'value' in held ? held.value : prototype.constructor;
  return typeof made === 'function' && typeof made.name === 'string' ? made.name : '';
}

function functionText(value) {
  const isClass = Function.prototype.toString.call(value).startsWith('class');
  const name = typeof value.name === 'string' && value.name !== '' ? value.name : null;
  if (isClass) {
    const parent = Object.getPrototypeOf(value);
    const above = typeof parent === 'function' && parent.name ? ` extends ${parent.name}` : '';
    return `[class ${name ?? '(anonymous)'}${above}]`;
  }
  const kind = constructorName(value) || 'Function';
  return name === null ? `[${kind} (anonymous)]` : `[${kind}: ${name}]`;
}

const { Function } = globalThis;

// An endless recursion has thousands of lines.
function shorten(stack) {
  const lines = stack.split('\n');
  if (lines.length <= STACK_MAX) return stack;
  const half = STACK_MAX / 2;
  return [...lines.slice(0, half), `    ... ${lines.length - STACK_MAX} more`, ...lines.slice(-half)].join('\n');
}

class Inspector {
  constructor(options) {
    this.options = { ...DEFAULTS, ...options };
    this.path = []; // objects that hold the one that is shown
    this.circular = new Map();
  }

  show(value, depth) {
    if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return primitive(value, this.options);
    const kind = classOf(value);
    if (kind === 'Proxy') return '[Proxy]';
    if (this.path.includes(value)) {
      if (!this.circular.has(value)) this.circular.set(value, this.circular.size + 1);
      return `[Circular *${this.circular.get(value)}]`;
    }
    const custom = value[CUSTOM];
    if (typeof custom === 'function') {
      const told = custom.call(value, this.options.depth - depth, this.options, inspect);
      if (told !== value) return typeof told === 'string' ? told : this.show(told, depth);
    }
    this.path.push(value);
    const text = this.object(value, kind, depth);
    this.path.pop();
    const number = this.circular.get(value);
    return number === undefined ? text : `<ref *${number}> ${text}`;
  }

  // Of an object: [what stands before the braces, braces, entries].
  object(value, kind, depth) {
    const name = constructorName(value);
    const tooDeep = depth > this.options.depth;
    if (kind === 'Array') {
      if (tooDeep) return '[Array]';
      const prefix = name === 'Array' ? '' : `${name ?? '[Array: null prototype]'}(${value.length}) `;
      return this.join(prefix, '[]', [...this.items(value, depth), ...this.properties(value, depth, true)]);
    }
    const own = this.parts(value, kind, name, depth, tooDeep);
    if (typeof own === 'string') return own;
    const { prefix, base, entries } = own;
    if (tooDeep && base === null) return `[${name || 'Object'}]`;
    const properties = tooDeep ? [] : this.properties(value, depth, TYPED.test(kind));
    const all = [...entries, ...properties];
    if (base !== null && all.length === 0) return base;
    return this.join(base !== null ? `${base} ` : prefix, own.braces ?? '{}', base !== null ? properties : all);
  }

  parts(value, kind, name, depth, tooDeep) {
    const plain = (base) => ({ prefix: '', base, entries: [] });
    const named = (entries, prefix = `${name ?? `[${kind}: null prototype]`} `) => ({ prefix, base: null, entries });
    if (typeof value === 'function') return plain(functionText(value));
    if (TYPED.test(kind)) {
      if (tooDeep) return `[${name}]`;
      return { ...named(this.items(value, depth), `${name}(${value.length}) `), braces: '[]' };
    }
    switch (kind) {
      case 'Error': return plain(this.error(value));
      case 'Date': return plain(Number.isNaN(value.valueOf()) ? 'Invalid Date' : Date.prototype.toISOString.call(value));
      case 'RegExp': return plain(String(value));
      case 'Number': case 'String': case 'Boolean': case 'Symbol': case 'BigInt':
        return plain(`[${kind}: ${primitive(value.valueOf(), this.options)}]`);
      case 'Map': return named(tooDeep ? [] : this.mapEntries(value, depth), `${name}(${sizeOfMap.call(value)}) `);
      case 'Set': return named(tooDeep ? [] : this.setEntries(value, depth), `${name}(${sizeOfSet.call(value)}) `);
      case 'Promise': return named([this.promise(value, depth)]);
      case 'WeakMap': case 'WeakSet': return named(['<items unknown>']);
      case 'ArrayBuffer': return named([`byteLength: ${value.byteLength}`]);
      case 'Generator': return named([], 'Object [Generator] ');
      case 'Arguments': return { ...named(this.items(value, depth), '[Arguments] '), braces: '[]' };
      default: break;
    }
    const tag = value[Symbol.toStringTag];
    const suffix = typeof tag === 'string' && tag !== '' && tag !== name ? `[${tag}] ` : '';
    if (name === null) return named([], `[Object: null prototype] ${suffix}`);
    return named([], name === 'Object' && suffix === '' ? '' : `${name || 'Object'} ${suffix}`);
  }

  error(value) {
    const { name, message, stack } = value;
    const head = message === '' || message === undefined ? String(name) : `${String(name)}: ${String(message)}`;
    const lines = typeof stack === 'string' ? shorten(stack.replace(/\n+$/, '')) : '';
    // A stack of our own making begins with the message, QuickJS's does not.
    return lines === '' ? (this.path.length > 1 ? `[${head}]` : head) : /^\s+at /.test(lines) ? `${head}\n${lines}` : lines;
  }

  promise(value, depth) {
    const { state, value: inner } = host.promise(value);
    if (state === 'pending') return '<pending>';
    return (state === 'rejected' ? '<rejected> ' : '') + this.show(inner, depth + 1);
  }

  more(count) {
    return `... ${count} more item${count > 1 ? 's' : ''}`;
  }

  items(value, depth) {
    const { maxArrayLength } = this.options;
    const shown = Math.min(value.length, maxArrayLength);
    const out = [];
    let holes = 0;
    const flush = () => {
      if (holes > 0) out.push(`<${holes} empty item${holes > 1 ? 's' : ''}>`);
      holes = 0;
    };
    for (let i = 0; i < shown; i++) {
      const held = Object.getOwnPropertyDescriptor(value, i);
      if (held === undefined) {
        holes++;
        continue;
      }
      flush();
      out.push(this.property(held, depth));
    }
    flush();
    if (value.length > shown) out.push(this.more(value.length - shown));
    return out;
  }

  property(held, depth) {
    if ('value' in held) return this.show(held.value, depth + 1);
    if (held.get === undefined) return '[Setter]';
    return held.set === undefined ? '[Getter]' : '[Getter/Setter]';
  }

  mapEntries(value, depth) {
    const out = [];
    eachOfMap.call(value, (item, key) => {
      if (out.length < KEYS_MAX) out.push(`${this.show(key, depth + 1)} => ${this.show(item, depth + 1)}`);
    });
    return out;
  }

  setEntries(value, depth) {
    const out = [];
    eachOfSet.call(value, (item) => {
      if (out.length < KEYS_MAX) out.push(this.show(item, depth + 1));
    });
    return out;
  }

  // "name: value" of what is enumerable; `isList`: its items have been shown.
  properties(value, depth, isList) {
    const out = [];
    for (const key of Reflect.ownKeys(value)) {
      if (isList && typeof key === 'string' && /^\d+$/.test(key)) continue;
      const held = Object.getOwnPropertyDescriptor(value, key);
      if (held === undefined || !held.enumerable) continue;
      if (out.length === KEYS_MAX) {
        out.push('...');
        break;
      }
      const name = typeof key === 'symbol' ? `[${String(key)}]` : IDENTIFIER.test(key) ? key : quote(key, 1000);
      out.push(`${name}: ${this.property(held, depth)}`);
    }
    return out;
  }

  // On one line if they fit, else one line each, or several numbers on one.
  join(prefix, braces, entries) {
    if (entries.length === 0) return `${prefix}${braces}`;
    const length = entries.reduce((sum, entry) => sum + entry.length + 2, prefix.length);
    const isFlat = !entries.some((entry) => entry.includes('\n'));
    if (isFlat && length <= LINE_MAX) return `${prefix}${braces[0]} ${entries.join(', ')} ${braces[1]}`;
    const lines = isFlat && braces === '[]' && entries.length > 6 ? this.rows(entries) : entries;
    return `${prefix}${braces[0]}\n  ${lines.map((entry) => entry.replaceAll('\n', '\n  ')).join(',\n  ')}\n${braces[1]}`;
  }

  rows(entries) {
    const rows = [];
    let row = '';
    for (const entry of entries) {
      if (row !== '' && row.length + entry.length + 2 > LINE_MAX) {
        rows.push(row);
        row = '';
      }
      row += row === '' ? entry : `, ${entry}`;
    }
    return [...rows, row];
  }
}

const { Math } = globalThis;

function inspect(value, options) {
  return new Inspector(typeof options === 'object' ? options : {}).show(value, 0);
}

function toText(value) {
  return typeof value === 'string' ? value : inspect(value);
}

// console.log's: %s, %d, %i, %f, %j, %o, %O, %c.
function format(...values) {
  if (typeof values[0] !== 'string' || values.length === 1) return values.map(toText).join(' ');
  let at = 1;
  const head = values[0].replace(/%[sdifjoOc%]/g, (mark) => {
    if (mark === '%%') return '%';
    if (at >= values.length) return mark;
    const value = values[at++];
    switch (mark) {
      case '%s': return typeof value === 'object' ? inspect(value, { depth: 0 }) : String(value);
      case '%d': return typeof value === 'bigint' ? `${value}n` : String(Number(value));
      case '%i': return String(Math.trunc(Number(value)));
      case '%f': return String(Number(value));
      case '%j': return String(JSON.stringify(value));
      case '%c': return '';
      default: return inspect(value);
    }
  });
  return [head, ...values.slice(at).map(toText)].join(' ');
}

module.exports = { inspect, format, types };
