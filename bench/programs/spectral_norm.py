# SPDX-License-Identifier: Apache-2.0
"""Generators and floats: the spectral norm of an infinite matrix's corner."""
from math import sqrt


def element(i, j):
    return 1.0 / ((i + j) * (i + j + 1) // 2 + i + 1)


def times(vector):
    size = range(len(vector))
    return [sum(element(i, j) * value for j, value in enumerate(vector)) for i in size]


def times_transposed(vector):
    size = range(len(vector))
    return [sum(element(j, i) * value for j, value in enumerate(vector)) for i in size]


def run():
    u = [1.0] * 70
    for _ in range(5):
        v = times_transposed(times(u))
        u = times_transposed(times(v))
    top = sum(a * b for a, b in zip(u, v))
    return "%.9f" % sqrt(top / sum(b * b for b in v))
