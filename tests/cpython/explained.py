# SPDX-License-Identifier: Apache-2.0
"""Why tests of CPython fail in a WebAssembly sandbox: the feature that they need and that is not there. Only for failures
that are such; a wrong result is never one."""
import re

# (pattern of the test's id, pattern of the failure's text, the reason)
RULES = [
]

_COMPILED = [(re.compile(test), re.compile(text), reason) for test, text, reason in RULES]


def reason(test, why):
    """What explains the failure, or None."""
    for name, text, words in _COMPILED:
        if name.search(test) and text.search(why):
            return words
    return None
