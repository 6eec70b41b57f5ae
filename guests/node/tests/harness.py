# SPDX-License-Identifier: Apache-2.0
"""A host for tests of the Node worker: the one of the Python worker's tests, with another program."""

import importlib.util
import os
import shutil
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PATH = os.path.join(os.path.dirname(ROOT), "python", "tests", "harness.py")
_SPEC = importlib.util.spec_from_file_location("python_harness", _PATH)
python = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(python)

NODE = os.environ.get("SBX_TEST_NODE") or shutil.which("node") or shutil.which("nodejs")
FLAGS = ["--expose-internals", "--no-force-async-hooks-checks", "--experimental-vm-modules"]
OLDEST = 18


def version():
    """The major version of the Node to test; 0: there is none."""
    if NODE is None:
        return 0
    told = subprocess.run([NODE, "--version"], capture_output=True, text=True, timeout=60, check=True).stdout
    return int(told.lstrip("v").split(".")[0])


class Guest(python.Guest):
    """A worker and the host's end of it."""

    def __init__(self, flags=(), **options):
        self.flags = flags
        super().__init__(**options)

    def command(self, options):
        del options
        return [NODE, *FLAGS, *self.flags, os.path.join(ROOT, "sbx_node", "worker.js")]
