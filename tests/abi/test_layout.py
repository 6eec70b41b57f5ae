#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The ABI is only ever appended to: the headers against tests/abi/baseline-v1.txt, and the comparison against headers
that were changed in every way that would break a plugin."""
import os
import pathlib
import shutil
import struct
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))
from tap import main, note  # noqa: E402
import layout  # noqa: E402
from headers import Headers  # noqa: E402
from widen import widen  # noqa: E402

INCLUDE = HERE.parents[1] / "include"
BASELINE = HERE / "baseline-v1.txt"


@unittest.skipUnless(struct.calcsize("P") == 8, "the baseline is of 64-bit systems")
class Layout(unittest.TestCase):
    def test_headers_keep_every_promise_of_the_baseline(self):
        broken, added = layout.compare(layout.read(BASELINE), layout.measure(INCLUDE))
        for name in added:
            note("appended since the baseline: %s" % name)
        self.assertEqual(broken, [], "these changes break plugins that exist. Append instead; or, for another ABI, raise "
                                     "SBX_ABI_MAJOR and begin a new baseline")

    def changed(self, header, *replacements):
        """What compare() says of headers with these changes."""
        with tempfile.TemporaryDirectory(prefix="sbx-abi-") as scratch:
            include = pathlib.Path(scratch, "include")
            shutil.copytree(INCLUDE, include)
            path = include / "snipara-sandbox" / header
            text = path.read_text(encoding="utf-8")
            for old, new in replacements:
                self.assertEqual(text.count(old), 1, "the test's own text %r is out of date" % old)
                text = text.replace(old, new)
            path.write_text(text, encoding="utf-8")
            return layout.compare(layout.measure(INCLUDE), layout.measure(include))

    def assert_breaks(self, expected, header, *replacements):
        broken, _ = self.changed(header, *replacements)
        self.assertTrue(any(expected in line for line in broken), "%r is not in %r" % (expected, broken))

    def test_a_removed_member_is_found(self):
        self.assert_breaks("removed", "backend.h", ("        int32_t exit_fd;", "        int32_t other_fd;"))

    def test_moved_members_are_found(self):
        self.assert_breaks("member sbx_call cancel_fd", "types.h",
                           ("        int32_t cancel_fd;\n        uint64_t deadline_ns;",
                            "        uint64_t deadline_ns;\n        int32_t cancel_fd;"))

    def test_a_resized_member_is_found(self):
        self.assert_breaks("member sbx_guest_usage pids", "backend.h",
                           ("        uint32_t pids; ", "        uint64_t pids; "))

    def test_another_type_of_the_same_size_is_found(self):
        self.assert_breaks("member sbx_guest_usage exit_code", "backend.h",
                           ("        int32_t exit_code;", "        uint32_t exit_code;"))

    def test_another_signature_is_found(self):
        self.assert_breaks("member sbx_sink_ops flush", "sink.h",
                           ("int (*flush)(void *instance,", "int (*flush)(void *instance, int hard,"))

    def test_another_parameter_name_is_fine(self):
        broken, added = self.changed("sink.h", ("int (*flush)(void *instance,", "int (*flush)(void *self,"))
        self.assertEqual((broken, added), ([], []))

    def test_an_inserted_member_is_found(self):
        self.assert_breaks("append it", "sink.h", ("        uint32_t reserved;", "        uint32_t reserved;\n        void *more;"))

    def test_a_grown_fixed_struct_is_found(self):
        self.assert_breaks("struct sbx_bytes", "types.h", ("        size_t size;\n};", "        size_t size;\n        int more;\n};"))

    def test_a_grown_embedded_struct_is_found(self):
        self.assert_breaks("struct sbx_limits", "backend.h",
                           ("uint32_t cpu_percent;  /* 100 is one CPU */\n        uint32_t reserved;",
                            "uint32_t cpu_percent;\n        uint32_t reserved;\n        uint64_t more;"))

    def test_a_shorter_buffer_is_found(self):
        self.assert_breaks("struct sbx_error", "types.h", ("SBX_ERROR_HINT_MAX 512", "SBX_ERROR_HINT_MAX 256"))

    def test_another_enum_value_is_found(self):
        self.assert_breaks("enum sbx_plugin_kind SBX_PLUGIN_STORE", "plugin.h", ("SBX_PLUGIN_STORE = 6", "SBX_PLUGIN_STORE = 7"))

    def test_a_reused_enum_value_is_found(self):
        self.assert_breaks("takes the value", "plugin.h",
                           ("SBX_PLUGIN_STORE = 6", "SBX_PLUGIN_STORE = 6, SBX_PLUGIN_OTHER = 6"))

    def test_another_flag_is_found(self):
        self.assert_breaks("define SBX_OPTION_SECRET", "plugin.h", ("SBX_OPTION_SECRET (1u << 0)", "SBX_OPTION_SECRET (1u << 7)"))

    def test_appending_to_every_struct_is_fine(self):
        with tempfile.TemporaryDirectory(prefix="sbx-abi-") as scratch:
            headers = Headers(INCLUDE)
            growable = [name for name in headers.structs if headers.may_grow(name)]
            for name in headers.files:
                os.makedirs(os.path.join(scratch, "snipara-sandbox"), exist_ok=True)
                text = (INCLUDE / "snipara-sandbox" / name).read_text(encoding="utf-8")
                pathlib.Path(scratch, "snipara-sandbox", name).write_text(widen(text, growable), encoding="utf-8")
            broken, added = layout.compare(layout.measure(INCLUDE), layout.measure(scratch))
        self.assertEqual(broken, [])
        self.assertEqual(len([name for name in added if name.startswith("member ")]), 2 * len(growable))


if __name__ == "__main__":
    main()
