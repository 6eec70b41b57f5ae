# SPDX-License-Identifier: Apache-2.0
"""A worker for each test, as a plain process."""

import unittest

from harness import Guest

MIB = 1 << 20


class GuestTest(unittest.TestCase):
    options = {}

    def setUp(self):
        self.guest = Guest(**self.options)
        self.addCleanup(self.guest.close)

    def run_ok(self, code, **header):
        result = self.guest.run(code, **header)
        self.assertEqual(result["end"], "ok", result)
        return result

    def run_error(self, code, kind, **header):
        result = self.guest.run(code, **header)
        self.assertEqual((result["end"], result["error"]["type"]), ("error", kind), result)
        return result["error"]
