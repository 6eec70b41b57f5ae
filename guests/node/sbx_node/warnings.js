// SPDX-License-Identifier: Apache-2.0
// Node warns of what this worker does itself; the user's code can't help that.
'use strict';

// What the user's code makes of the global names is not our business.
const { process } = globalThis;

// What `work` returns; nothing is said meanwhile.
function quietly(work) {
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return work();
  } finally {
    process.emitWarning = emitWarning;
  }
}

// From now on, warnings that match are not shown.
function dropWarnings(pattern) {
  const { emitWarning } = process;
  process.emitWarning = function (warning, ...rest) {
    if (typeof warning !== 'string' || !pattern.test(warning)) emitWarning.call(process, warning, ...rest);
  };
}

module.exports = { quietly, dropWarnings };
