// SPDX-License-Identifier: Apache-2.0
// One execution that asks as many queries at once as the argument says; the answer to query N comes after N x 5 ms.
import { setTimeout } from "node:timers/promises";

export async function answer(request, { turn, prompt, argument }) {
  const [, number] = /^query (\d+)/.exec(prompt) ?? [];
  if (number !== undefined) {
    await setTimeout(Number(number) * 5);
    return { content: `answer ${number}` };
  }
  if (turn > 0) return { content: "done" };
  const code = `import time
begin = time.monotonic()
answers = llm_batch([f"query {n}" for n in range(${argument})], max_parallel=${argument})
assert answers == [f"answer {n}" for n in range(${argument})]
FINAL(str(time.monotonic() - begin))`;
  return { toolCalls: [{ name: "execute_python", arguments: { code } }] };
}
