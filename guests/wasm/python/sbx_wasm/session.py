# SPDX-License-Identifier: Apache-2.0
"""A session in the image: what it tells of errors that come from where it runs."""

from sbx_guest.session import Session

from . import absent


class WasmSession(Session):
    """Knows why a module is missing."""

    def hint(self, error):
        """What to do about a module that is not in the image."""
        return absent.hint(error)
