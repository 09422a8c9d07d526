#!/usr/bin/python3
"""A day of a hundred replicas with a broker, simulated: fleet_test.py, or --table for tests/bench/RESULTS.md."""
import math
import sys
import unittest

import fleet_model

REPLICAS, CORES = 100, 2
HOUR_S = 3600
DAY_S = 24 * HOUR_S
MAX_REFUSED = 0.01
BUSY = 0.8  # of the cores, at one o'clock
PEAK = BUSY * REPLICAS * CORES / fleet_model.CORE_S_PER_IMAGE  # images a second
BURST_S = range(11 * HOUR_S, 11 * HOUR_S + 60)  # of three times the load
BURST_LEAD_S = 300
AFTER_BURST = BURST_LEAD_S + len(BURST_S)
BUSY_HOURS = (12 * HOUR_S, 14 * HOUR_S)


def day(second):
    """Images a second: a night, a working day, an hour at eight in the evening, and a burst before noon."""
    hour = second / HOUR_S
    load = 0.15 + 0.85 * max(0.0, math.sin((hour - 6) / 14 * math.pi)) + 0.25 * math.exp(-(((hour - 20) / 0.7) ** 2))
    return PEAK * load * (3 if second in BURST_S else 1)


def jobs(second):
    """Jobs a second: a tenth of what all cores can do, all day, and a batch at night."""
    return PEAK / BUSY * (0.1 + (0.5 if 2 <= second / HOUR_S < 4 else 0))


def simulate(begin=0, end=DAY_S, factor=1.0, own_moments=True, broker=fleet_model.REDIS):
    fleet = fleet_model.Fleet(REPLICAS, CORES, broker, lambda now: factor * jobs(begin + now), own_moments)
    return fleet.run(lambda now: factor * day(begin + now), end - begin)


def around_the_burst(own_moments):
    return simulate(BURST_S.start - BURST_LEAD_S, BURST_S.stop + 600, own_moments=own_moments)


def first_bottleneck():
    """The load at which a resource is used up, or too much is refused, in the busiest hours: its factor and the resource."""
    for percent in range(100, 400, 5):
        fleet = simulate(*BUSY_HOURS, factor=percent / 100)
        if max(fleet.broker_share) >= 1:
            return percent / 100, fleet.broker.name
        if fleet.refused > MAX_REFUSED * fleet.total:
            return percent / 100, "cores"
    return None, "none"


def largest_broker_fleet(broker):
    """Replicas that use up the broker when all of their cores run jobs."""
    images = CORES / fleet_model.CORE_S_PER_IMAGE
    return math.floor(1 / broker.load(images, images, CORES, 0))


class FleetTest(unittest.TestCase):
    def test_a_day(self):
        fleet = simulate()
        self.assertGreater(fleet.refused, 0, "the burst is too small to show anything")
        self.assertLess(fleet.refused, MAX_REFUSED * fleet.total)
        self.assertEqual(fleet.lost, 0)
        self.assertLess(max(fleet.broker_share), 1)
        self.assertLess(fleet.queued_jobs, 60 * jobs(0), "the night's jobs are done by the next night")

    def test_moments_of_their_own_make_no_herd(self):
        own, same = (around_the_burst(own_moments) for own_moments in (True, False))
        self.assertLess(own.pressure(AFTER_BURST), 2)
        self.assertGreater(same.pressure(AFTER_BURST), 5)

    def test_cores_are_used_up_first(self):
        self.assertEqual(first_bottleneck()[1], "cores")
        self.assertGreater(largest_broker_fleet(fleet_model.REDIS), REPLICAS)


def print_table():
    print("| part | callers are told | refused | most calls a second after the burst, by the calls that can be computed | cores | slots | Redis |\n" + "| --- " * 7 + "|")
    cases = [("a day", "a moment of their own", simulate(), BURST_S.stop)]
    for told, own_moments in (("a moment of their own", True), ("the same moment", False)):
        cases.append(("the burst", told, around_the_burst(own_moments), AFTER_BURST))
    for part, told, fleet, after in cases:
        shares = " | ".join(f"{fleet.peaks[name]:.0%}" for name in ("cores", "slots", "broker"))
        print(f"| {part} | {told} | {fleet.refused / fleet.total:.2%} | {fleet.pressure(after):.2f} | {shares} |")
    factor, name = first_bottleneck()
    print(f"\nFirst bottleneck: {name}, at {factor:.2f} times the load. Redis is used up by {largest_broker_fleet(fleet_model.REDIS)} replicas.")


if __name__ == "__main__":
    print_table() if "--table" in sys.argv else unittest.main()
