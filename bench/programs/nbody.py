# SPDX-License-Identifier: Apache-2.0
"""Floating point: the planets of the sun, step by step."""
from math import pi, sqrt

SOLAR_MASS = 4 * pi * pi
DAYS = 365.24

# Position, velocity for each day, mass in suns.
BODIES = (
    ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 1.0),
    ((4.84143144246472090, -1.16032004402742839, -0.103622044471123109),
     (0.00166007664274403694, 0.00769901118419740425, -0.0000690460016972063023), 0.000954791938424326609),
    ((8.34336671824457987, 4.12479856412430479, -0.403523417114321381),
     (-0.00276742510726411022, 0.00499852801234917238, 0.0000230417297573763929), 0.000285885980666130812),
    ((12.8943695621391310, -15.1111514016986312, -0.223307578892655734),
     (0.00296460137564761618, 0.00237847173959480950, -0.0000296589568540237556), 0.0000436624404335156298),
    ((15.3796971148509165, -25.9193146099879641, 0.179258772950371181),
     (0.00268067772490389322, 0.00162824170038242295, -0.0000951592254519715870), 0.0000515138902046611451),
)


def system():
    return [(list(place), [speed * DAYS for speed in speeds], mass * SOLAR_MASS) for place, speeds, mass in BODIES]


def advance(pairs, bodies, step):
    for (one, speed, mass), (other, other_speed, other_mass) in pairs:
        dx, dy, dz = one[0] - other[0], one[1] - other[1], one[2] - other[2]
        magnitude = step / ((dx * dx + dy * dy + dz * dz) ** 1.5)
        mine, theirs = other_mass * magnitude, mass * magnitude
        speed[0] -= dx * mine
        speed[1] -= dy * mine
        speed[2] -= dz * mine
        other_speed[0] += dx * theirs
        other_speed[1] += dy * theirs
        other_speed[2] += dz * theirs
    for place, speed, _ in bodies:
        place[0] += step * speed[0]
        place[1] += step * speed[1]
        place[2] += step * speed[2]


def energy(pairs, bodies):
    total = 0.0
    for (one, _, mass), (other, _, other_mass) in pairs:
        total -= mass * other_mass / sqrt(sum((one[i] - other[i]) ** 2 for i in range(3)))
    for _, speed, mass in bodies:
        total += mass * sum(part * part for part in speed) / 2.0
    return total


def run():
    bodies = system()
    pairs = [(bodies[i], bodies[j]) for i in range(len(bodies)) for j in range(i + 1, len(bodies))]
    for _ in range(4000):
        advance(pairs, bodies, 0.01)
    return "%.9f" % energy(pairs, bodies)
