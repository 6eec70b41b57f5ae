// SPDX-License-Identifier: Apache-2.0
// An agent whose first answer is wrong; it mends it when it is told what the check said.
export function answer(request, { last, prompt }) {
  if (/not below 100/.test(prompt) || /not below 100/.test(last))
    return { toolCalls: [{ name: "FINAL", arguments: { answer: "25" } }] };
  return { toolCalls: [{ name: "FINAL", arguments: { answer: "168" } }] };
}
