// SPDX-License-Identifier: Apache-2.0
// Answers the example of examples/recursive: code for the question, and contract numbers for each piece of the text.
const code = `lines, pieces, size = [], [], 0
for line in document.splitlines():
    lines.append(line)
    size += len(line)
    if size > 200_000:
        pieces.append("\\n".join(lines))
        lines, size = [], 0
pieces.append("\\n".join(lines))
answers = llm_batch(["List the numbers of all contracts of more than 1,000,000 EUR in this text, one on each line:\\n\\n"
                     + piece for piece in pieces], max_parallel=8)
FINAL("\\n".join(sorted({name.strip() for answer in answers for name in answer.splitlines() if name.strip()})))
print(len(pieces), "pieces")
`;

export function answer(request, { turn, prompt }) {
  if (prompt.startsWith("List the numbers")) {
    const found = [...prompt.matchAll(/Contract (C-\d+) was signed over (\d+) EUR/g)];
    return { content: found.filter(([, , value]) => Number(value) > 1_000_000).map(([, name]) => name).join("\n") };
  }
  if (turn === 0) return { toolCalls: [{ name: "execute_python", arguments: { code } }] };
  return { content: "done" };
}
