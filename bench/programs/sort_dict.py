# SPDX-License-Identifier: Apache-2.0
"""Sorting, dictionaries, sets and grouping."""
from collections import Counter, defaultdict


def numbers(count):
    state = 42
    for _ in range(count):
        state = (state * 1103515245 + 12345) & 0x7fffffff
        yield state >> 8


def run():
    values = list(numbers(30000))
    ordered = sorted(values)
    pairs = sorted(((value % 97, str(value)) for value in values[:15000]), key=lambda pair: (pair[0], pair[1]))
    groups = defaultdict(list)
    for value in values:
        groups[value % 1000].append(value)
    index = {str(value): at for at, value in enumerate(values)}
    common = Counter(value % 50 for value in values).most_common(3)
    return [ordered[0], pairs[-1], len(groups), len(set(values)), index[str(values[7])], common]
