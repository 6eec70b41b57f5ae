# SPDX-License-Identifier: Apache-2.0
"""A session in WebAssembly: its memory, and what it tells of errors that come from where it runs."""

import _sbx
from sbx_guest.session import Session

from . import absent


class WasmSession(Session):
    """Keeps what the worker needs from the user's code, and knows why a module is missing."""

    def guard(self, function, *arguments):
        """Calls what may run the user's code: (value, None) or (None, exception)."""
        _sbx.enter()
        told = super().guard(function, *arguments)
        _sbx.leave()
        return told

    def hint(self, error):
        """What to do about a module that is not in the image."""
        return absent.hint(error)
