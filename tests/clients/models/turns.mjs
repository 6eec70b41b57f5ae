// SPDX-License-Identifier: Apache-2.0
// As many turns as the argument says, each with one small execution; then an answer. For measuring the loop itself.
export function answer(request, { turn, argument }) {
  if (turn < Number(argument)) return { toolCalls: [{ name: "execute_python", arguments: { code: `x = ${turn}` } }] };
  return { content: "done" };
}
