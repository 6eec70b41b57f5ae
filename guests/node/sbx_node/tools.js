// SPDX-License-Identifier: Apache-2.0
// Calls that the user's code makes back to the host: one at a time on the control stream, in the order in which they
// were made. What they return is a promise.
'use strict';

// What the user's code makes of the global names is not our business.
const { Array, Error, JSON, Map, Number, Object, Promise, Proxy, String, TypeError, ReferenceError } = globalThis;

const { TOOL_CALL, split } = require('./frames.js');
const { clean, cap, className, dumps, dumpsValue, loads } = require('./text.js');

const ARGUMENTS_MAX = 16 << 20;
const NAME_MAX = 128;
const NOT_HERE =
  'no tools can be called from this execution: it is not part of a run, or code mode is off (setting code_mode)';

class ToolError extends Error {
  get name() {
    return 'ToolError';
  }
}

// Of a batch: `results` and `errors`, each with null where the other has something.
class LLMError extends Error {
  constructor(message, results, errors) {
    super(message);
    this.results = results;
    this.errors = errors;
  }

  get name() {
    return 'LLMError';
  }
}

function text(value, what) {
  if (typeof value !== 'string') throw new TypeError(`${what} must be a string, not ${className(value)}`);
  return clean(value);
}

function count(value, what) {
  if (!Number.isSafeInteger(value)) throw new TypeError(`${what} must be an integer, not ${className(value)}`);
  return value;
}

function encode(value) {
  const bytes = dumpsValue(value, ARGUMENTS_MAX);
  if (bytes === null) {
    throw new TypeError('arguments must be plain JSON values: null, booleans, finite numbers, strings, arrays and ' +
      `plain objects, of at most ${ARGUMENTS_MAX >> 20} MiB`);
  }
  return bytes;
}

const OPTIONS = [['system', text], ['max_tokens', count], ['context_query', text], ['max_parallel', count]];

function take(options, allowed, into) {
  if (options === undefined || options === null) return into;
  if (typeof options !== 'object') throw new TypeError('options must be an object');
  for (const name of Object.keys(options)) {
    if (!allowed.includes(name)) throw new TypeError(`there is no option ${name}: ${allowed.join(', ')}`);
  }
  for (const [name, check] of OPTIONS) {
    if (allowed.includes(name) && options[name] !== undefined && options[name] !== null) {
      into[name] = check(options[name], name);
    }
  }
  return into;
}

function query(item, position) {
  const what = `prompts[${position}]`;
  if (typeof item === 'string') return { query: clean(item) };
  if (item === null || typeof item !== 'object') {
    throw new TypeError(`${what} must be a string, or an object with 'query' and perhaps 'system'`);
  }
  const told = { query: text(item.query, `${what}.query`) };
  if (item.system !== undefined && item.system !== null) told.system = text(item.system, `${what}.system`);
  return told;
}

// The value that a tool's result stands for.
function valueOf(result) {
  const content = result?.content;
  if (!Array.isArray(content)) return result;
  const texts = content.filter((block) => typeof block?.text === 'string').map((block) => block.text);
  if (result.isError === true) throw new ToolError(texts.join('\n') || 'the tool failed and said nothing');
  if (result.structuredContent !== undefined && result.structuredContent !== null) return result.structuredContent;
  if (content.length === 0) return null;
  if (content.length > 1 || texts.length !== 1 || content[0].type !== 'text') return content;
  try {
    return JSON.parse(texts[0]);
  } catch {
    return texts[0];
  }
}

class Tools {
  constructor(channel, variables) {
    this.channel = channel;
    this.variables = variables;
    this.enabled = false;
    this.serial = 0;
    this.queue = []; // not sent yet
    this.pending = null; // sent, and its answer has not come
    this.idle = null; // to be called when it has
  }

  get busy() {
    return this.pending !== null || this.queue.length > 0;
  }

  request(name, bytes, Failure = ToolError) {
    return new Promise((resolve, reject) => {
      if (!this.enabled) {
        reject(new Failure(NOT_HERE));
        return;
      }
      this.queue.push({ name, bytes, resolve, reject, Failure });
      this.next();
    });
  }

  next() {
    if (this.pending !== null || this.queue.length === 0) return;
    this.pending = this.queue.shift();
    this.pending.call = ++this.serial;
    this.channel.send(TOOL_CALL, dumps({ call: this.serial, name: this.pending.name }), this.pending.bytes);
  }

  // The host's answer.
  answered(payload) {
    const [header, blob] = split(payload);
    const told = loads(header);
    const { pending, idle } = this;
    if (pending === null || told.call !== pending.call) return;
    this.pending = null;
    const value = JSON.parse(blob.toString('utf8'));
    if (told.ok === true) pending.resolve(value);
    else pending.reject(new pending.Failure(typeof value === 'string' ? value : 'the call failed'));
    this.idle = null;
    if (idle !== null) idle();
    else this.next();
  }

  // Nothing is sent any more; calls `then` once no answer is awaited.
  settle(then) {
    this.enabled = false;
    const given = this.queue;
    this.queue = [];
    for (const call of given) {
      const lost = new call.Failure('the execution ended before this call was made');
      call.reject(lost);
    }
    if (this.pending === null) then();
    else this.idle = then;
  }

  async llmQuery(prompt, options) {
    const arguments_ = take(options, ['system', 'max_tokens', 'context_query'], { prompt: text(prompt, 'prompt') });
    return (await this.request('llm_query', encode(arguments_), LLMError)).response;
  }

  async llmBatch(prompts, options) {
    if (!Array.isArray(prompts)) throw new TypeError('prompts must be an array; llm_query asks one');
    const queries = prompts.map(query);
    const { system, ...rest } = take(options, ['system', 'max_tokens', 'max_parallel'], {});
    if (system !== undefined) for (const item of queries) item.system ??= system;
    if (queries.length === 0 && this.enabled) return [];
    const told = (await this.request('llm_batch', encode({ queries, ...rest }), LLMError)).results;
    const results = told.map((item) => item.response ?? null);
    const errors = told.map((item) => (item.response == null ? item.error ?? 'it failed' : null));
    const failed = errors.filter((error) => error !== null);
    if (failed.length === 0) return results;
    const message = `${failed.length} of ${results.length} queries failed; the first: ${failed[0]}`;
    throw new LLMError(message, results, errors);
  }

  async call(name, arguments_ = {}) {
    if (typeof name !== 'string' || name === '' || name.length > NAME_MAX) {
      throw new TypeError(`the name of a tool is a string of 1 to ${NAME_MAX} characters`);
    }
    if (arguments_ === null || typeof arguments_ !== 'object' || Array.isArray(arguments_)) {
      throw new TypeError(`${name} takes its arguments as one object: ${name}({argument: value})`);
    }
    return this.request(name, encode(arguments_));
  }

  answer(value) {
    if (typeof value === 'string') return clean(value);
    const told = dumpsValue(value, ARGUMENTS_MAX);
    if (told === null) return cap(clean(String(value)), ARGUMENTS_MAX / 2);
    return JSON.stringify(JSON.parse(told.toString('latin1')));
  }

  async final(value) {
    await this.request('FINAL', dumps({ answer: this.answer(value) }));
  }

  async finalVar(name) {
    if (typeof name !== 'string') {
      throw new TypeError('FINAL_VAR takes the name of a variable, as a string; FINAL takes a value');
    }
    for (const [known, value] of this.variables.entries()) {
      if (known !== name) continue;
      await this.request('FINAL_VAR', dumps({ variable_name: clean(name), value: this.answer(value) }));
      return;
    }
    const known = this.variables.names().slice(0, 5).join(', ');
    const there = known ? `there is ${known}` : 'there are none';
    const shown = cap(clean(name), 100);
    throw new ReferenceError(`${shown} is not a variable of this session; ${there}. FINAL takes a value itself.`);
  }

  // tools.NAME({...})
  proxy() {
    const made = new Map();
    const target = Object.create(null);
    return new Proxy(target, {
      get: (_target, name) => {
        // `then`: await looks for it in whatever it is given.
        if (typeof name !== 'string' || name === 'then') return undefined;
        if (!made.has(name)) made.set(name, async (arguments_) => valueOf(await this.call(name, arguments_)));
        return made.get(name);
      },
      set: () => false,
    });
  }

  async list() {
    const told = await this.request('__list__', dumps({}));
    return told.tools.map(({ name, description }) => ({ name, description: description ?? '' }));
  }

  // The global names of code mode.
  names() {
    return {
      llm_query: (prompt, options) => this.llmQuery(prompt, options),
      llm_batch: (prompts, options) => this.llmBatch(prompts, options),
      call_tool: (name, arguments_) => this.call(name, arguments_),
      list_tools: () => this.list(),
      FINAL: (value) => this.final(value),
      FINAL_VAR: (name) => this.finalVar(name),
      tools: this.proxy(),
      ToolError,
      LLMError,
    };
  }
}

module.exports = { Tools };
