// SPDX-License-Identifier: Apache-2.0
// Functions and classes of a portable state: by their source. What they find in a scope of their own, and not in the
// session, can't be told by source; nor can what hangs on the object that a method was written in.
'use strict';

// What the user's code makes of the global names is not our business.
const { Array, Function, JSON, Object, Set, Symbol, SyntaxError, WeakMap } = globalThis;

const acorn = require('internal/deps/acorn/acorn/dist/acorn');

const toSource = Function.prototype.toString;
const SCRIPT = { ecmaVersion: 'latest', sourceType: 'script', allowAwaitOutsideFunction: false };
const HOOK_NAME = 'snipara-sandbox: a function that is looked at';
const HOOK = Symbol.for(HOOK_NAME);
const NATIVE = /\{\s*\[native code\]\s*\}\s*$/;
const PLAIN_KEYS = new Set(['Identifier', 'Literal', 'PrivateIdentifier']);

class Unsaved extends globalThis.Error {}

function walk(top, visit) {
  const pending = [top];
  while (pending.length > 0) {
    const node = pending.pop();
    if (visit(node) === false) continue;
    for (const key of Object.keys(node)) {
      for (const part of Array.isArray(node[key]) ? node[key] : [node[key]]) {
        if (part !== null && typeof part === 'object' && typeof part.type === 'string') pending.push(part);
      }
    }
  }
}

function parse(text) {
  try {
    const { body } = acorn.parse(text, SCRIPT);
    return body.length === 1 && body[0].type === 'ExpressionStatement' ? body[0].expression : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

// {node, offset, kind, text} of a function's source: an expression, or a method of an object literal.
function read(source) {
  const node = parse(`(${source}\n)`);
  if (node !== null) return { node, offset: 1, method: null };
  const literal = parse(`({${source}\n})`);
  const property = literal?.type === 'ObjectExpression' && literal.properties.length === 1 && literal.properties[0];
  if (!property || property.value?.type !== 'FunctionExpression') {
    throw new Unsaved('its source can not be read');
  }
  return { node: property.value, offset: 2, method: property };
}

// A key that is computed is one that runs no code.
function isPlainKey(key, computed) {
  if (!computed) return PLAIN_KEYS.has(key.type);
  return key.type === 'Literal' || (key.type === 'MemberExpression' && !key.computed &&
    key.object.type === 'Identifier' && key.object.name === 'Symbol');
}

// Names that the function uses and that may come from outside of it.
function usedNames(node) {
  const names = new Set();
  walk(node, (at) => {
    if (at.type === 'Identifier') names.add(at.name);
    return true;
  });
  return names;
}

function usesSuper(node) {
  let found = false;
  walk(node, (at) => {
    if (at.type === 'Super') found = true;
    return at.type !== 'ClassBody';
  });
  return found;
}

// ---- scopes ----

// What V8 knows of the scopes that a function was made in.
class Scopes {
  constructor() {
    this.inspector = null;
  }

  open() {
    if (this.inspector !== null) return;
    const { Session } = require('inspector');
    this.inspector = new Session();
    this.inspector.connect();
  }

  close() {
    this.inspector?.disconnect();
    this.inspector = null;
  }

  post(method, parameters) {
    let told = null;
    this.inspector.post(method, parameters, (error, result) => {
      if (error === null) told = result;
    });
    return told;
  }

  properties(objectId) {
    return this.post('Runtime.getProperties', { objectId, ownProperties: true, accessorPropertiesOnly: false });
  }

  // Names of variables that are not the session's.
  names(made) {
    this.open();
    Object.defineProperty(globalThis, HOOK, { value: made, configurable: true });
    const names = new Set();
    try {
      const expression = `globalThis[Symbol.for(${JSON.stringify(HOOK_NAME)})]`;
      const found = this.post('Runtime.evaluate', { expression, objectGroup: 'states' });
      const inner = this.properties(found.result.objectId).internalProperties ?? [];
      const list = inner.find((item) => item.name === '[[Scopes]]');
      const scopes = list === undefined ? [] : this.properties(list.value.objectId).result;
      for (const scope of scopes) {
        if (scope.value?.objectId === undefined || scope.value.description === 'Global') continue;
        for (const variable of this.properties(scope.value.objectId).result) names.add(variable.name);
      }
    } finally {
      delete globalThis[HOOK];
      this.post('Runtime.releaseObjectGroup', { objectGroup: 'states' });
    }
    return names;
  }
}

// ---- functions ----

class Functions {
  constructor() {
    this.known = new WeakMap(); // what was found out of a function; its source and its scopes never change
    this.scopes = new Scopes();
  }

  // {source, kind: 'function' | 'class' | 'method', hasPrivate, methods}, or throws Unsaved.
  look(made) {
    let found = this.known.get(made);
    if (found === undefined) {
      try {
        found = this.examine(made);
      } catch (error) {
        if (!(error instanceof Unsaved)) throw error;
        found = error;
      }
      this.known.set(made, found);
    }
    if (found instanceof Unsaved) throw found;
    return found;
  }

  examine(made) {
    const source = toSource.call(made);
    if (NATIVE.test(source)) throw new Unsaved('a function of the machine\'s own, or a bound one');
    const { node, method } = read(source);
    if (method !== null && !isPlainKey(method.key, method.computed)) throw new Unsaved('its name is computed');
    const isClass = node.type === 'ClassExpression';
    if (!isClass && usesSuper(node)) throw new Unsaved('it uses super');
    this.checkScopes(made, node);
    if (isClass) return { source, kind: 'class', ...this.classFacts(node) };
    return { source, kind: method === null ? 'function' : 'method' };
  }

  checkScopes(made, node) {
    const outside = this.scopes.names(made);
    outside.delete(node.id?.name); // its own, which it has again
    if (outside.size === 0) return;
    const used = usedNames(node);
    const caught = [...outside].filter((name) => used.has(name));
    if (caught.length > 0) throw new Unsaved(`it uses ${caught.slice(0, 3).join(', ')} of the code that made it`);
  }

  classFacts(node) {
    let hasPrivate = false;
    for (const item of node.body.body) {
      if (item.type === 'StaticBlock') continue;
      if (!isPlainKey(item.key, item.computed)) throw new Unsaved('the name of one of its members is computed');
      if (item.key.type !== 'PrivateIdentifier') continue;
      if (item.static) throw new Unsaved('it has static members that are private');
      if (item.type === 'PropertyDefinition' || item.kind !== 'method') hasPrivate = true;
    }
    return { hasPrivate, hasSuper: node.superClass !== null && node.superClass !== undefined };
  }
}

// The text of an expression that makes the function and runs nothing else; of a class with another one above it, a
// function that is given that one. Static members of a class are values, which are put back by themselves.
function expression(source, kind) {
  const { node, offset, method } = read(source);
  if (method !== null) return { text: `({${source}\n})`, key: method.kind === 'init' ? 'value' : method.kind };
  if (kind !== 'class' || node.type !== 'ClassExpression') {
    if (!/^(FunctionExpression|ArrowFunctionExpression)$/.test(node.type)) throw new Unsaved('no function');
    return { text: `(${source}\n)`, key: null };
  }
  const cuts = [];
  for (const item of node.body.body) {
    const isValue = item.type === 'StaticBlock' || (item.type === 'PropertyDefinition' && item.static);
    if (isValue) cuts.push([item.start, item.end, '']);
  }
  const hasSuper = node.superClass !== null && node.superClass !== undefined;
  if (hasSuper) cuts.push([node.superClass.start, node.superClass.end, '__above__']);
  let text = '';
  let at = 0;
  for (const [start, end, instead] of cuts.sort((a, b) => a[0] - b[0])) {
    const lines = source.slice(start - offset, end - offset).replace(/[^\n]/g, '');
    text += source.slice(at, start - offset) + instead + lines;
    at = end - offset;
  }
  text += source.slice(at);
  return { text: hasSuper ? `((__above__)=>(${text}\n))` : `(${text}\n)`, key: hasSuper ? 'above' : null };
}

module.exports = { Functions, Unsaved, expression };
