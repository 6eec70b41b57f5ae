// SPDX-License-Identifier: Apache-2.0
// Looks for what is wrong in ./data as a careful model would: lists the files, reads them with code, counts, answers.
const code = `import csv, io, collections
issues = []
for name in ("orders.csv", "customers.csv"):
    text = tools.file_read(path=f"data/{name}", max_lines=100000)["content"]
    rows = list(csv.DictReader(io.StringIO(text)))
    keys = collections.Counter(row["id"] for row in rows)
    issues += [f"{name}: id {key} appears {count} times" for key, count in keys.items() if count > 1]
    issues += [f"{name}: row {n} has no {column}" for n, row in enumerate(rows, 1)
               for column, value in row.items() if not value]
for issue in issues:
    print(issue)
result = issues
`;

export function answer(request, { turn, last }) {
  if (turn === 0)
    return { content: "Let me see what is there.", toolCalls: [{ name: "list_files", arguments: { path: "data" } }] };
  if (turn === 1) return { toolCalls: [{ name: "execute_python", arguments: { code } }] };
  const issues = last.split("\n").filter((line) => /^(orders|customers)\.csv: /.test(line));
  return { content: `Found ${issues.length} issues:\n${issues.join("\n")}` };
}
