# SPDX-License-Identifier: Apache-2.0
"""Generators, closures and exceptions: a tree that is walked, a pipeline, coroutines."""


def tree(depth):
    return None if depth == 0 else (tree(depth - 1), depth, tree(depth - 1))


def walk(node):
    if node is not None:
        yield from walk(node[0])
        yield node[1]
        yield from walk(node[2])


def accumulate():
    total = 0
    while True:
        try:
            total += yield total
        except ValueError:
            total = 0


def run():
    total = sum(value * value for value in (item + 1 for item in walk(tree(12))))
    adder = accumulate()
    next(adder)
    for number in range(20000):
        last = adder.throw(ValueError) if number % 1000 == 999 else adder.send(number)
    return [total, last]
