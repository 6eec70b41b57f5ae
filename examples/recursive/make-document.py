#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a long report with some contracts in it, far longer than any model's context: the same one at every call.

    make-document.py FILE [MEGABYTES]

Prints the numbers of the contracts of more than a million, which is what the example asks for.
"""
import random
import sys

WORDS = ("the committee noted that deliveries were late and agreed to wait for a report on storage costs before the next "
         "meeting while prices of steel and glass went on rising in most regions").split()


def paragraph(chance):
    words = [chance.choice(WORDS) for _ in range(chance.randint(40, 120))]
    return " ".join(words).capitalize() + "."


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    chance = random.Random(2201)
    limit = int(float(sys.argv[2] if len(sys.argv) == 3 else 10) * 1_000_000)
    size, number, large = 0, 1000, []
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        while size < limit:
            text = paragraph(chance)
            if chance.random() < 0.01:
                number += 1
                value = chance.randrange(10_000, 1_030_000)
                if value > 1_000_000:
                    large.append(f"C-{number}")
                text += f" Contract C-{number} was signed over {value} EUR."
            size += file.write(text + "\n")
    print("\n".join(large))


if __name__ == "__main__":
    main()
