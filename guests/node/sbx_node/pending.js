// SPDX-License-Identifier: Apache-2.0
// What an execution has begun and will end by itself: timers, file and process operations. An execution waits for these
// as a program of its own would; it does not wait for intervals, servers and connections, which go on in the
// background.
'use strict';

// What the user's code makes of the global names is not our business.
const { Object, Set, WeakSet, process } = globalThis;

const timers = require('timers');
const { quietly } = require('./warnings.js');
const lists = require('internal/timers');
const { internalBinding } = quietly(() => require('internal/test/binding'));

const FINITE = new Set([
  'FSReqCallback', 'FSReqPromise', 'ProcessWrap', 'GetAddrInfoReqWrap', 'GetNameInfoReqWrap',
  'PipeConnectWrap', 'TCPConnectWrap', 'WriteWrap', 'ShutdownWrap', 'Zlib', 'CloseReq', 'DirHandle',
]);
const { kCount, kRefCount } = lists.immediateInfoFields;
const { immediateInfo, toggleImmediateRef } = internalBinding('timers');
const { getActiveResourcesInfo } = process;
const { clearTimeout, clearImmediate } = timers;

// Calls `use` for each timer of the lists.
function eachTimer(use) {
  for (const key of Object.keys(lists.timerListMap)) {
    const list = lists.timerListMap[key];
    for (let item = list._idlePrev, next; item !== null && item !== undefined && item !== list; item = next) {
      next = item._idlePrev;
      use(item);
    }
  }
}

class Pending {
  constructor() {
    this.ours = new WeakSet(); // immediates of the worker itself; its timers have no reference
  }

  // Is there something left to wait for? Node's own counts of timers and immediates are not asked: an interrupt that
  // ends one of them leaves these too high.
  any() {
    for (const kind of getActiveResourcesInfo()) if (FINITE.has(kind)) return true;
    let found = false;
    eachTimer((timer) => {
      if (typeof timer._repeat !== 'number' && timer.hasRef?.()) found = true;
    });
    return found || this.immediates().length > 0;
  }

  immediates() {
    const found = [];
    for (let item = lists.immediateQueue.head; item !== null && item !== undefined; item = item._idleNext) {
      if (!this.ours.has(item) && item.hasRef()) found.push(item);
    }
    return found;
  }

  // After an interrupt: timers of the user's would go on with what was stopped.
  drop() {
    const found = [];
    eachTimer((timer) => {
      if (timer.hasRef?.()) found.push(timer); // those without are Node's own, and ours
    });
    found.forEach((timer) => clearTimeout(timer));
    this.immediates().forEach((item) => clearImmediate(item));
  }

  // Immediates that V8 threw away are still counted, and a count that is not zero has the event loop spin.
  mend() {
    let count = 0;
    let referenced = 0;
    for (let item = lists.immediateQueue.head; item !== null && item !== undefined; item = item._idleNext) {
      count++;
      if (item.hasRef()) referenced++;
    }
    immediateInfo[kCount] = count;
    immediateInfo[kRefCount] = referenced;
    toggleImmediateRef(referenced > 0);
  }
}

module.exports = { Pending };
