# SPDX-License-Identifier: Apache-2.0
"""Large integers: digits of pi by a spigot."""


def digits():
    q, r, t, k = 1, 0, 1, 1
    while True:
        number = (3 * q + r) // t
        if number == (4 * q + r) // t:
            yield number
            q, r = 10 * q, 10 * (r - number * t)
        else:
            q, r, t, k = q * k, (2 * q + r) * (2 * k + 1), t * (2 * k + 1), k + 1


def run():
    found = digits()
    return "".join(str(next(found)) for _ in range(700))[-20:]
