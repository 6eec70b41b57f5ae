// SPDX-License-Identifier: Apache-2.0
// Runs tests one after another and prints TAP version 13.

const tests = [];

/** Registers a test: `run` fails by throwing, and is skipped by throwing a Skip. */
export function test(name, run) {
  tests.push({ name, run });
}

export class Skip extends Error {}

function comment(text) {
  for (const line of String(text).split("\n")) console.log(`# ${line}`);
}

/** Runs what was registered; `after` runs at the end whatever came of it. Sets the exit code. */
export async function main(after = async () => {}) {
  let failed = 0;
  console.log(`TAP version 13\n1..${tests.length}`);
  for (const [index, { name, run }] of tests.entries()) {
    try {
      await run();
      console.log(`ok ${index + 1} - ${name}`);
    } catch (error) {
      if (error instanceof Skip) {
        console.log(`ok ${index + 1} - ${name} # SKIP ${error.message}`);
        continue;
      }
      failed++;
      console.log(`not ok ${index + 1} - ${name}`);
      comment(error.stack ?? error);
    }
  }
  await after();
  comment(`${tests.length} run, ${failed} failed`);
  process.exitCode = failed ? 1 : 0;
}
