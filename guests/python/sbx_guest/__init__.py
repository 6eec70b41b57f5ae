# SPDX-License-Identifier: Apache-2.0
"""The Python worker: what runs inside a guest and speaks the guest protocol (docs/guest-protocol.md).

Only the standard library is needed, any CPython from 3.9 on. What a fresh session needs is imported by
``worker.prepare``; whatever costs more than a fraction of a millisecond is imported when it is first used.
"""
