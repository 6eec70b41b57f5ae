# SPDX-License-Identifier: Apache-2.0
"""The interpreter that runs this, spoken to as bench/wasm.py speaks to every interpreter (pyodide.mjs)."""
import json
import sys

names = {"__name__": "program"}
print(json.dumps({"version": sys.version.split()[0]}), flush=True)
for line in sys.stdin:
    names["answer"] = None
    exec(json.loads(line), names)  # the benchmark's own programs
    print(json.dumps(repr(names["answer"])), flush=True)
