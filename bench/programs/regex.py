# SPDX-License-Identifier: Apache-2.0
"""The re module: searching, splitting and replacing in a text of 80 kB."""
import re

WORDS = ("alpha", "beta42", "gamma@example.org", "2026-11-21", "http://host.example/path?query=1", "Delta", "10.0.0.255")
TEXT = "\n".join(" ".join(WORDS[(line * 7 + column * 3) % len(WORDS)] for column in range(9)) for line in range(600))
PATTERNS = (r"[\w.+-]+@[\w-]+\.[\w.]+", r"(\d{4})-(\d\d)-(\d\d)", r"\b[A-Z]\w+", r"https?://[^\s/]+(/[^\s?]*)?(\?\S+)?",
            r"(?:\d{1,3}\.){3}\d{1,3}", r"(a|b|g)\w*?(a|m)\b")


def run():
    total = 0
    for pattern in PATTERNS:
        compiled = re.compile(pattern)
        total += sum(len(match.group()) for match in compiled.finditer(TEXT))
    total += len(re.sub(r"(\w+)@(\w+)", r"\2 at \1", TEXT)) + len(re.split(r"\s+", TEXT))
    return total
