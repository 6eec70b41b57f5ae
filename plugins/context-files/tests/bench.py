# SPDX-License-Identifier: Apache-2.0
"""How long indexing a project and asking take: bench.py HOST PROJECT. SNIPARA_SANDBOX_BUILD_ROOT is the build directory."""
import json
import os
import subprocess
import sys
import tempfile
import time

CALLS = 200


def main():
    program, project = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as state:
        host = subprocess.Popen([program, project, "files.wait=10m"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                env=dict(os.environ, XDG_STATE_HOME=state))

        def call(tool, **arguments):
            start = time.monotonic()
            host.stdin.write(b"snipara_%s\t%s\t0\t-1\n" % (tool.encode(), json.dumps(arguments).encode()))
            host.stdin.flush()
            result = json.loads(host.stdout.readline())
            return 1000 * (time.monotonic() - start), json.loads(result["content"][0]["text"])

        took, answer = call("sections", limit=1)
        print("first call (indexes):   %8.1f ms, %d sections" % (took, answer["total"]))
        for tool, arguments in (("context_query", {"query": "how does a session keep its state after a time-out"}),
                                ("search", {"pattern": r"timeout\w+\(", "max_results": 20}),
                                ("search", {"pattern": r"nothing is like this"}),
                                ("sections", {}), ("read", {"file": "README.md", "start_line": 1, "end_line": 100})):
            times = sorted(call(tool, **arguments)[0] for _ in range(CALLS))
            print("%-24s median %6.2f ms, p95 %6.2f ms" % (tool + ":", times[CALLS // 2], times[CALLS * 95 // 100]))
        host.stdin.close()
        host.wait()


if __name__ == "__main__":
    main()
