# SPDX-License-Identifier: Apache-2.0
"""Text: building, formatting, splitting, searching, encoding."""


def run():
    parts = []
    for number in range(9000):
        parts.append(f"{number:06d}:{number * 3.5:.2f}|{'even' if number % 2 == 0 else 'odd'}")
    text = ",".join(parts)
    fields = [part.split("|") for part in text.split(",")]
    swapped = "".join(f"{right.upper()}-{left.replace(':', '=')};" for left, right in fields)
    words = {}
    for word in swapped.replace(";", " ").split():
        words[word[:3]] = words.get(word[:3], 0) + 1
    encoded = (swapped + "\u00e9\u20ac" * 500).encode("utf-8")
    return [len(swapped), sorted(words.items()), swapped.count("EVEN"), swapped.find("004999"), len(encoded.decode("utf-8"))]
