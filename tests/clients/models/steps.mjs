// SPDX-License-Identifier: Apache-2.0
// An agent that adds something up over as many iterations as the argument says, with a sub-call and a memory in each, and
// gives the sum as its answer. What it asks for depends on the iteration and the turn alone.
export function answer(request, { turn, prompt, argument }) {
  const square = /^square (\d+)$/.exec(prompt);
  if (square) return { content: String(square[1] ** 2) };
  const step = Number(/iteration\W*(\d+)/i.exec(prompt)[1]);
  if (step >= Number(argument)) return { toolCalls: [{ name: "FINAL_VAR", arguments: { variable_name: "total" } }] };
  if (turn > 0) return { content: `Step ${step} is done.` };
  const code = `total = globals().get("total", 0) + ${step}
total += int(llm_query("square ${step}"))
tools.snipara_remember(content="step ${step} of the sum")
print(total)`;
  return { toolCalls: [{ name: "execute_python", arguments: { code } }] };
}
