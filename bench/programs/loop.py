# SPDX-License-Identifier: Apache-2.0
"""Integers and branches in plain loops."""


def run():
    total = 0
    number = 0
    while number < 600000:
        if number % 3 == 0:
            total += number
        elif number & 1:
            total ^= number
        number += 1
    return total
