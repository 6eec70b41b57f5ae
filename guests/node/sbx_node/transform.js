// SPDX-License-Identifier: Apache-2.0
// Makes of a piece of code something that can be run in a session: what it declares at its top level becomes properties
// of the global object, so that it lasts, can be declared again, and is seen by what other pieces of code defined; its
// last expression is returned; `await` and `import` work at its top level. Nothing changes its line.
'use strict';

// What the user's code makes of the global names is not our business.
const { Array, Object, Set, SyntaxError } = globalThis;

// Node's own parser, the one of its REPL (hence --expose-internals).
const acorn = require('internal/deps/acorn/acorn/dist/acorn');

const OPTIONS = {
  ecmaVersion: 'latest', sourceType: 'script', allowHashBang: true, allowAwaitOutsideFunction: true,
  allowReturnOutsideFunction: true, allowImportExportEverywhere: true, allowSuperOutsideMethod: false,
};
const FUNCTIONS = new Set(['FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression']);
const ASYNC_PREFIX = '(async()=>{';
const PREFIX = '(()=>{';

// Calls `visit` for each node below; it returns false to leave out what is below that.
function walk(node, visit) {
  const pending = [node];
  while (pending.length > 0) {
    const next = pending.pop();
    if (visit(next) === false) continue;
    for (const key of Object.keys(next)) {
      const part = next[key];
      for (const item of Array.isArray(part) ? part : [part]) {
        if (item !== null && typeof item === 'object' && typeof item.type === 'string') pending.push(item);
      }
    }
  }
}

// Names that a pattern binds.
function bound(pattern, names) {
  if (pattern === null) return;
  switch (pattern.type) {
    case 'Identifier': names.push(pattern.name); break;
    case 'ObjectPattern': for (const part of pattern.properties) bound(part.value ?? part.argument, names); break;
    case 'ArrayPattern': for (const part of pattern.elements) bound(part, names); break;
    case 'AssignmentPattern': bound(pattern.left, names); break;
    case 'RestElement': bound(pattern.argument, names); break;
  }
}

// Text with parts replaced. Parts that lie in another may be changed as well, before or after it.
class Edits {
  constructor(source) {
    this.source = source;
    this.list = [];
  }

  replace(start, end, text) {
    this.list.push({ start, end, text });
  }

  insert(at, text) {
    this.replace(at, at, text);
  }

  // Keeps the lines: what is cut leaves its line ends.
  blank(start, end) {
    this.replace(start, end, this.source.slice(start, end).replace(/[^\n\r\u2028\u2029]/g, ' '));
  }

  apply() {
    const ordered = this.list.map((edit, order) => ({ ...edit, order }));
    ordered.sort((a, b) => a.start - b.start || a.end - b.end || a.order - b.order);
    let out = '';
    let at = 0;
    for (const edit of ordered) {
      if (edit.start < at) continue; // within what was cut
      out += this.source.slice(at, edit.start) + edit.text;
      at = edit.end;
    }
    return out + this.source.slice(at);
  }
}

class Transform {
  constructor(source, program) {
    this.source = source;
    this.program = program;
    this.edits = new Edits(source);
    this.hoisted = new Edits(source);
    this.fresh = []; // names that this code declares anew
    this.vars = []; // those that keep what they have
    this.functions = [];
    this.imports = []; // names of whole modules, or of their default exports
    this.isAsync = false;
    this.setsResult = false;
  }

  // `x = 1, {a} = b` of a declaration's parts, by edits. `let x;` starts anew, `var x;` does not.
  declarators(node, own) {
    for (const part of node.declarations) {
      bound(part.id, own);
      if (part.init === null) this.edits.insert(part.end, node.kind === 'var' ? '' : '=undefined');
    }
  }

  declaration(node) {
    const first = node.declarations[0].start;
    this.edits.replace(node.start, first, this.lines(node.start, first, 'void('));
    this.declarators(node, node.kind === 'var' ? this.vars : this.fresh);
    const last = node.declarations[node.declarations.length - 1].end;
    this.edits.insert(last, ')');
    if (this.source[node.end - 1] !== ';' || node.end === last) this.edits.insert(last, ';');
  }

  // `text`, and the line ends of what it stands for.
  lines(start, end, text) {
    return this.source.slice(start, end).replace(/[^\n\r\u2028\u2029]/g, '') + text;
  }

  loopVariable(node) {
    if (node?.type !== 'VariableDeclaration' || node.kind !== 'var') return;
    this.edits.replace(node.start, node.declarations[0].start, this.lines(node.start, node.declarations[0].start, ''));
    this.declarators(node, this.vars);
  }

  function(node) {
    this.functions.push(node.id.name);
    this.edits.blank(node.start, node.end);
    this.edits.insert(node.start, ';');
    this.hoisted.insert(node.start, `;${node.id.name}=`);
    // Its own name would be a constant in it, and the session's function of that name another.
    this.hoisted.blank(node.id.start, node.id.end);
    this.hoisted.insert(node.end, ';');
  }

  class(node) {
    this.fresh.push(node.id.name);
    this.edits.insert(node.start, `void(${node.id.name}=`);
    this.edits.insert(node.end, ');');
  }

  import(node) {
    const from = this.source.slice(node.source.start, node.source.end);
    const names = [];
    const parts = [];
    let whole = null;
    for (const item of node.specifiers) {
      this.fresh.push(item.local.name);
      if (item.type !== 'ImportSpecifier') this.imports.push(item.local.name);
      if (item.type === 'ImportNamespaceSpecifier') whole = item.local.name;
      else {
        const name = item.type === 'ImportDefaultSpecifier' ? 'default' : item.imported.raw ?? item.imported.name;
        names.push(`${name}:${item.local.name}`);
      }
    }
    this.isAsync = true;
    if (whole !== null) parts.push(`${whole}=await import(${from})`);
    if (names.length > 0) parts.push(`{${names.join(',')}}=${whole ?? `await import(${from})`}`);
    if (parts.length === 0) parts.push(`await import(${from})`);
    this.edits.replace(node.start, node.end, this.lines(node.start, node.end, `void(${parts.join(',')});`));
  }

  export(node) {
    const inner = node.declaration;
    if (inner === null || inner === undefined) {
      this.edits.blank(node.start, node.end);
      return;
    }
    if (node.type === 'ExportDefaultDeclaration' && inner.id == null) {
      this.edits.replace(node.start, inner.start, this.lines(node.start, inner.start, 'void('));
      this.edits.insert(inner.end, ')');
      return;
    }
    this.edits.blank(node.start, inner.start);
    this.statement(inner);
  }

  // A statement of the top level itself.
  statement(node) {
    switch (node.type) {
      case 'FunctionDeclaration': this.function(node); break;
      case 'ClassDeclaration': this.class(node); break;
      case 'ImportDeclaration': this.import(node); break;
      case 'ExportNamedDeclaration':
      case 'ExportDefaultDeclaration': this.export(node); break;
      case 'ExportAllDeclaration': this.edits.blank(node.start, node.end); break;
      case 'VariableDeclaration': this.declaration(node); break;
      default: this.inner(node);
    }
  }

  // What is declared with `var` in a block is the session's as well.
  inner(top) {
    walk(top, (node) => {
      if (FUNCTIONS.has(node.type) || node.type === 'ClassBody') return false;
      if (node.type === 'ForStatement') this.loopVariable(node.init);
      else if (node.type === 'ForInStatement' || node.type === 'ForOfStatement') this.loopVariable(node.left);
      else if (node.type === 'VariableDeclaration' && node.kind === 'var' && !this.isLoopVariable(node)) {
        this.declaration(node);
      }
      return true;
    });
  }

  isLoopVariable(node) {
    return this.loops.has(node);
  }

  // Facts about the whole: does it await, does it set `result`, which declarations belong to a loop's head.
  survey() {
    this.loops = new Set();
    walk(this.program, (node) => {
      if (node.type === 'AwaitExpression' || (node.type === 'ForOfStatement' && node.await)) this.isAsync = true;
      if (node.type === 'ForStatement') this.loops.add(node.init);
      if (node.type === 'ForInStatement' || node.type === 'ForOfStatement') this.loops.add(node.left);
      if (node.type === 'AssignmentExpression') {
        const names = [];
        bound(node.left, names);
        if (names.includes('result')) this.setsResult = true;
      }
      return !FUNCTIONS.has(node.type) && node.type !== 'ClassBody';
    });
  }

  run() {
    this.survey();
    const body = this.program.body.filter((node) => node.type !== 'EmptyStatement');
    for (const node of body) this.statement(node);
    const last = body[body.length - 1];
    if (last?.type === 'ExpressionStatement') {
      this.edits.insert(last.start, ';return(');
      const hasEnd = this.source[last.end - 1] === ';' && last.end > last.expression.end;
      this.edits.insert(hasEnd ? last.end - 1 : last.end, ')');
    }
    const names = [...this.fresh, ...this.vars, ...this.functions];
    return {
      code: (this.isAsync ? ASYNC_PREFIX : PREFIX) + this.edits.apply() + '\n})',
      offset: this.isAsync ? ASYNC_PREFIX.length : PREFIX.length,
      functions: this.functions.length > 0 ? this.onlyFunctions() : null,
      fresh: this.fresh,
      imports: this.imports,
      names,
      setsResult: this.setsResult || names.includes('result'),
    };
  }

  // Code that defines the functions and does nothing else: they are there before the first statement runs.
  onlyFunctions() {
    let at = 0;
    for (const top of this.program.body) {
      const node = top.declaration?.type === 'FunctionDeclaration' ? top.declaration : top;
      if (node.type !== 'FunctionDeclaration' || node.id == null) continue;
      this.hoisted.blank(at, node.start);
      at = node.end;
    }
    this.hoisted.blank(at, this.source.length);
    return this.hoisted.apply();
  }
}

function parse(source) {
  try {
    return acorn.parse(source, OPTIONS);
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

// {code, offset, functions, fresh, imports, names, setsResult}, or null when our parser does not know the syntax: V8
// may, or will say what is wrong. `code`: an expression whose value is the function to call.
function transform(source) {
  if (source.startsWith('#!')) source = `//${source.slice(2)}`;
  // `{a: 1}` is an object, not a block with a label.
  if (/^\s*\{/.test(source) && !/;\s*$/.test(source)) {
    const wrapped = `(${source}\n)`;
    const program = parse(wrapped);
    if (program !== null) return new Transform(wrapped, program).run();
  }
  const program = parse(source);
  return program === null ? null : new Transform(source, program).run();
}

module.exports = { transform, ASYNC_PREFIX };
