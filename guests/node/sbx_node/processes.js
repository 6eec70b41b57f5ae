// SPDX-License-Identifier: Apache-2.0
// Other processes of the session: after an interrupt they end.
'use strict';

// What the user's code makes of the global names is not our business.
const { Number, process } = globalThis;

const fs = require('fs');

const { readFileSync, readdirSync } = fs;

const ROUNDS = 200;

function kill(pid) {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // gone already
  }
}

function isZombie(pid) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
    return text[text.lastIndexOf(')') + 2] === 'Z';
  } catch {
    return true;
  }
}

// Processes that this one started, and those that they started. Also runs as text in the watcher's thread.
function descendants(fs) {
  const found = [];
  for (const pending = ['self']; pending.length > 0;) {
    const base = `/proc/${pending.pop()}/task`;
    try {
      for (const task of fs.readdirSync(base)) {
        const children = fs.readFileSync(`${base}/${task}/children`, 'latin1').split(' ').filter(Boolean);
        found.push(...children.map(Number));
        pending.push(...children);
      }
    } catch {
      // gone meanwhile, or a kernel that does not tell
    }
  }
  return found;
}

// Where the namespace holds others of ours: what is none of them, one by one, until nothing is left.
function killExcept(kept) {
  for (let round = 0; round < ROUNDS; round++) {
    const others = readdirSync('/proc').filter((name) => /^[0-9]+$/.test(name) && !kept.includes(Number(name)));
    const living = others.map(Number).filter((pid) => !isZombie(pid));
    if (living.length === 0) return;
    living.forEach(kill);
  }
}

// `owned`: 'all': every process but the first of the namespace is the session's; 'others': all but the first, our
// parent and we; 'none': only those that this process started are known to be.
function killAll(owned) {
  if (owned === 'all') kill(-1);
  else if (owned === 'others') killExcept([1, process.ppid, process.pid]);
  else descendants(fs).forEach(kill);
}

module.exports = { killAll, descendants };
