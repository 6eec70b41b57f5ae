# SPDX-License-Identifier: Apache-2.0
"""The json module: records to text and back."""
import json

RECORDS = [{"id": number, "name": "record %d" % number, "tags": ["a", "bé", "c" * (number % 17)], "ratio": number / 7,
            "flag": number % 2 == 0, "nested": {"x": [1, 2.5, None], "y": {"z": "\u20ac \"quoted\"\n"}}}
           for number in range(400)]


def run():
    total = 0
    for _ in range(6):
        text = json.dumps(RECORDS)
        total += len(text) + len(json.loads(text)) + len(json.dumps(RECORDS[:50], indent=2, sort_keys=True))
    return total
