# SPDX-License-Identifier: Apache-2.0
"""A Bash worker for each test, as a plain process."""

import unittest

from bash_guest import BashGuest

MIB = 1 << 20


class BashTest(unittest.TestCase):
    options = {}

    def setUp(self):
        self.guest = BashGuest(**self.options)
        self.addCleanup(self.guest.close)

    def run_ok(self, code, **header):
        result = self.guest.run(code, **header)
        self.assertEqual(result["end"], "ok", result)
        self.assertEqual(result["exit_code"], 0, result)
        return result

    def out(self, code, **header):
        return self.run_ok(code, **header)["stdout"]

    def fails(self, code, status, kind="ExitStatus"):
        result = self.guest.run(code)
        self.assertEqual((result["end"], result["exit_code"], result["error"]["type"]), ("error", status, kind), result)
        return result
