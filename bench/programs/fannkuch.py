# SPDX-License-Identifier: Apache-2.0
"""Lists and slices: the most flips that a permutation needs."""


def fannkuch(size):
    permutation = list(range(size))
    count = list(range(1, size + 1))
    most = check = turn = 0
    while True:
        first = permutation[0]
        if first:
            work = permutation[:]
            flips = 0
            while first:
                work[:first + 1] = work[first::-1]
                flips += 1
                first = work[0]
            most = max(most, flips)
            check += -flips if turn & 1 else flips
        turn += 1
        for at in range(1, size):
            permutation.insert(at, permutation.pop(0))
            count[at] -= 1
            if count[at] > 0:
                break
            count[at] = at + 1
        else:
            return check, most


def run():
    return list(fannkuch(8))
