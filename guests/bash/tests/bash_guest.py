# SPDX-License-Identifier: Apache-2.0
"""The host for tests of the Python worker, with the Bash worker at the other end."""

import os
import sys

_GUESTS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(_GUESTS, "python", "tests"), os.path.join(_GUESTS, "bash")]

import harness  # noqa: E402

_CODE = "import sys; sys.path[:0] = sys.argv[1:]; from sbx_bash import worker; worker.main()"


class BashGuest(harness.Guest):
    """A worker and the host's end of it."""

    code = _CODE
    roots = (harness.ROOT, os.path.join(_GUESTS, "bash"))
