# SPDX-License-Identifier: Apache-2.0
"""Objects with float attributes: points that are normalised and compared."""
from math import cos, sin, sqrt


class Point:
    __slots__ = ("x", "y", "z")

    def __init__(self, i):
        self.x = value = sin(i)
        self.y = cos(i) * 3
        self.z = (value * value) / 2

    def normalize(self):
        norm = sqrt(self.x * self.x + self.y * self.y + self.z * self.z)
        self.x /= norm
        self.y /= norm
        self.z /= norm

    def maximize(self, other):
        self.x = self.x if self.x > other.x else other.x
        self.y = self.y if self.y > other.y else other.y
        self.z = self.z if self.z > other.z else other.z
        return self


def run():
    points = [Point(i) for i in range(20000)]
    for point in points:
        point.normalize()
    best = points[0]
    for point in points[1:]:
        best = best.maximize(point)
    return "%.9f %.9f %.9f" % (best.x, best.y, best.z)
