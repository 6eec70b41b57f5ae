# SPDX-License-Identifier: Apache-2.0
"""What tests of portable states share."""

import os
import shutil
import tempfile
import unittest

import harness
import portable


class StatesCase(unittest.TestCase):
    """Guests with a directory each that is theirs alone, and a workspace in it."""

    def setUp(self):
        self.guests = []

    def tearDown(self):
        for guest, directory in self.guests:
            guest.close()
            shutil.rmtree(directory)

    def start(self, python=None, **options):
        directory = tempfile.mkdtemp()
        work = os.path.join(directory, "work")
        os.mkdir(work)
        usual, harness.PYTHON = harness.PYTHON, python or harness.PYTHON
        try:
            guest = harness.Guest(cwd=work, env={"TMPDIR": directory}, **options)
        finally:
            harness.PYTHON = usual
        guest.directory, guest.work = directory, work
        self.guests.append((guest, directory))
        return guest

    def begin(self, code, **options):
        guest = self.start(**options)
        self.run_ok(guest, code)
        return guest

    def run_ok(self, guest, code):
        result = guest.run(code)
        self.assertEqual(result["end"], "ok", result.get("error"))
        return result

    def value(self, guest, expression):
        return self.run_ok(guest, expression).get("value")

    def save(self, guest, **options):
        told, parts = portable.save(guest, **options)
        self.assertEqual(told["end"], "ok", told)
        return told, parts

    def go_on(self, parts, **options):
        guest = self.start(**options)
        told = portable.restore(guest, parts)
        self.assertEqual(told["end"], "ok", told)
        return guest, told

    def move(self, code):
        """(what was told when it was saved, the guest that goes on, what it is missing)."""
        told, parts = self.save(self.begin(code))
        guest, restored = self.go_on(parts)
        return told, guest, restored["missing"]

    def problems(self, told, key="unsaved"):
        return {item["name"]: (item["type"], item["reason"]) for item in told[key]}
