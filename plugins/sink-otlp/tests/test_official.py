# SPDX-License-Identifier: Apache-2.0
"""What is exported, read with OpenTelemetry's own protobuf definitions. Needs node, and the package that tests/clients
names (`npm ci` there)."""
import os
import pathlib
import shutil
import subprocess
import unittest

import tap
from collector import Collector, Sink
from test_spans import a_run, event

CLIENTS = pathlib.Path(os.environ["CLIENTS"])


class Official(unittest.TestCase):
    def test_protobuf_takes_every_field(self):
        own = CLIENTS / "node_modules/.bin/node"
        node = str(own) if own.exists() else shutil.which("node")
        if not node or not (CLIENTS / "node_modules/@opentelemetry/otlp-transformer").is_dir():
            tap.skip("node or @opentelemetry/otlp-transformer is missing (npm ci in tests/clients)")
        for content in ("off", "on"):
            collector = Collector()
            self.addCleanup(collector.close)
            sink = Sink(f"--endpoint={collector.url}", f"--content={content}", "--batch_size=3")
            self.addCleanup(sink.close)
            odd = event("completion", 50, model="m/ö", prompt="\u0000\U0001f600", response="x" * 9000)
            for one in [*a_run(), odd]:
                sink.done(one)
            sink.done("flush")
            sink.close()
            bodies = b"".join(body + b"\n" for _, _, body in collector.requests)
            done = subprocess.run([node, str(pathlib.Path(__file__).with_name("decode.mjs")), str(CLIENTS)],
                                  input=bodies, capture_output=True, timeout=120, check=False)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"9\n", b""))


if __name__ == "__main__":
    tap.main(__name__)
