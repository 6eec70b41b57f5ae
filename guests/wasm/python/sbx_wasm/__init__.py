# SPDX-License-Identifier: Apache-2.0
"""The Python worker in WebAssembly: what differs from a process (sbx_guest), and what guest.c calls (guest.py).

The interpreter is started once, when the image is built, and waits in it for its first request. So nothing here costs a
session time but what it does for a request, and memory but what it writes to.
"""
