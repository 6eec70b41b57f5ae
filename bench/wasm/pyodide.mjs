// SPDX-License-Identifier: Apache-2.0
// Pyodide, spoken to as bench/wasm.py speaks to every interpreter: a JSON string of code a line, answered by a line with
// the repr of the variable `answer`.
//
//      node pyodide.mjs DIRECTORY      (of the npm package)
//
// The first line tells milliseconds: from this program's start to Pyodide's, and to the first result.
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import path from 'node:path';

const begin = performance.now();
const { loadPyodide, version } = await import(pathToFileURL(path.join(process.argv[2], 'pyodide.mjs')));
const pyodide = await loadPyodide();
const loaded = performance.now();
const first = pyodide.runPython('1 + 1');
if (first !== 2) throw new Error(`1 + 1 is ${first}`);
const python = pyodide.runPython('import sys; sys.version.split()[0]');
console.log(JSON.stringify({ version, python, load_ms: loaded - begin, first_ms: performance.now() - loaded }));

const globals = pyodide.toPy({ __name__: 'program' });
for await (const line of createInterface({ input: process.stdin })) {
  globals.set('answer', null);
  pyodide.runPython(JSON.parse(line), { globals });
  console.log(JSON.stringify(pyodide.runPython('repr(answer)', { globals })));
}
