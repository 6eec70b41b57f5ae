# SPDX-License-Identifier: Apache-2.0
"""The Bash worker: a driver in Python that speaks the guest protocol (docs/guest-protocol.md) for one lasting bash.

It takes frames, files, output and text from ``sbx_guest``, and needs bash 4.4 or later and /proc.
"""
