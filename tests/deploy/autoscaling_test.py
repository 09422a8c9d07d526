#!/usr/bin/python3
"""The autoscalers of deploy/kubernetes over hours of load, in a model: autoscaling_test.py, or --table for what RESULTS.md has."""
import math
import pathlib
import sys
import unittest

import yaml

import autoscaler
import cluster_model

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"
HPA = autoscaler.Rules.of_hpa(FOLDER / "overlays" / "cpu" / "horizontalpodautoscaler.yaml")
KEDA = autoscaler.Rules.of_keda(FOLDER / "overlays" / "keda" / "scaledobject.yaml")
DEPLOYMENT = yaml.safe_load((FOLDER / "deployment" / "deployment.yaml").read_text())
CONTAINER = DEPLOYMENT["spec"]["template"]["spec"]["containers"][0]
CORES = int(CONTAINER["resources"]["requests"]["cpu"])
# Until a new replica has its first call: scheduled on a node that has the image, started (0.1 s were measured, with the bundled models), seen by the
# probes and by the proxy.
START_S = 5 + 1 + CONTAINER["startupProbe"]["periodSeconds"] + CONTAINER["readinessProbe"]["periodSeconds"] + 2
HOUR_S, DAY_S = 3600, 86400
MAX_REFUSED = 0.01


def steady(rate):
    return lambda _: rate


def steps(second):
    return (4, 8, 16, 32, 16, 8, 4)[second * 2 // HOUR_S]


def bursts(factor):
    """Bursts of a minute in ten."""
    return lambda second: 8 * factor if second % 600 < 60 else 8


def day(second):
    """From a night through a working day, with an hour at eight in the evening."""
    hour = second / HOUR_S
    return 3 + 22 * max(0, math.sin((hour - 6) / 18 * math.pi)) ** 1.5 + 10 * math.exp(-(((hour - 20) / 0.7) ** 2))


TRACES = {"steady 4": (steady(4), 2 * HOUR_S), "steady 10": (steady(10), 2 * HOUR_S), "steady 25": (steady(25), 2 * HOUR_S),
          "steps": (steps, 7 * HOUR_S // 2), "bursts of 2.5": (bursts(2.5), 2 * HOUR_S), "bursts of 4": (bursts(4), 2 * HOUR_S), "day": (day, DAY_S)}


def simulate(rules, name, start_s=START_S, seconds=None):
    """From as many replicas as the load takes at first; `seconds`: a part of the trace."""
    rate_at, whole = TRACES[name]
    replicas = max(rules.min_replicas, math.ceil(rate_at(HOUR_S // 6 - 1) * cluster_model.CORE_S_PER_IMAGE / CORES / 0.7))
    return cluster_model.Cluster(rules, CORES, start_s, replicas).run(rate_at, seconds or whole)


def turns(counts):
    """How often the number of replicas rises after it fell, or falls after it rose."""
    changes = [after - before for before, after in zip(counts, counts[1:]) if after != before]
    return sum(1 for one, next_one in zip(changes, changes[1:]) if one * next_one < 0)


def only(rules, kind):
    return autoscaler.Rules(rules.min_replicas, rules.max_replicas, {kind: rules.targets[kind]}, rules.behavior)


class AutoscalingTest(unittest.TestCase):
    def check(self, rules, name, max_turns):
        cluster = simulate(rules, name)
        self.assertLess(cluster.refused, MAX_REFUSED * cluster.total)
        self.assertEqual(cluster.lost, 0)
        self.assertLessEqual(turns(cluster.counts), max_turns)
        return cluster

    def test_load_that_does_not_change_moves_nothing_but_by_chance(self):
        for rules in (HPA, KEDA):
            for name in ("steady 4", "steady 10", "steady 25"):
                with self.subTest(name, targets=rules.targets):
                    cluster = self.check(rules, name, max_turns=2)
                    self.assertEqual(cluster.refused, 0)
                    self.assertLessEqual(max(cluster.counts) - min(cluster.counts), 2)

    def test_steps_are_followed(self):
        for rules in (HPA, KEDA):
            with self.subTest(targets=rules.targets):
                cluster = self.check(rules, "steps", max_turns=3)
                busy, idle = max(cluster.counts), cluster.counts[-1]
                self.assertGreater(busy, 2 * idle)

    def test_bursts_are_held_for_rather_than_chased(self):
        """They come as seldom as the window is long, so that a replica or two go before the next one."""
        for name in ("bursts of 2.5", "bursts of 4"):
            with self.subTest(name):
                second_hour = self.check(KEDA, name, max_turns=5).counts[HOUR_S:]
                self.assertLessEqual(max(second_hour) - min(second_hour), 3)

    def test_bursts_that_cpu_alone_follows(self):
        """All bursts of 2.5 times the load, all but the first of 4 times: more than 100 % busy is not to be seen."""
        self.check(HPA, "bursts of 2.5", max_turns=3)
        first, last = (simulate(HPA, "bursts of 4", seconds=seconds) for seconds in (600, 2 * HOUR_S))
        self.assertGreater(last.refused, MAX_REFUSED * last.total)
        self.assertEqual((last.refused, last.lost), (first.refused, first.lost))

    def test_a_day(self):
        for rules in (HPA, KEDA):
            with self.subTest(targets=rules.targets):
                self.check(rules, "day", max_turns=5)

    def test_the_model_shows_what_swings(self):
        """By the backlog alone: none is left while replicas are to spare, so that they go until it is back."""
        cluster = simulate(only(KEDA, "backlog"), "steady 10")
        self.assertGreater(turns(cluster.counts), 5)

    def test_the_model_shows_refusals(self):
        """Replicas that take a node each, which is started first, when the load is eight times as much at once."""
        cluster = cluster_model.Cluster(KEDA, CORES, start_s=180, replicas=2).run(steady(25), 600)
        self.assertGreater(cluster.refused, MAX_REFUSED * cluster.total)


class ChartTest(unittest.TestCase):
    """Targets that a chart's user gets are those that were simulated."""

    def test_defaults(self):
        values = yaml.safe_load((FOLDER / "chart" / "values.yaml").read_text())
        self.assertEqual(values["cpu"], str(CORES))
        for rules in (HPA, KEDA):
            self.assertEqual((values["minReplicas"], values["maxReplicas"]), (rules.min_replicas, rules.max_replicas))
            self.assertEqual(values["cpuPercent"], 100 * rules.targets["cpu"])
            self.assertEqual(values["scaleInAfter"], rules.behavior["scaleDown"]["stabilizationWindowSeconds"])
        self.assertEqual(float(values["backlogSeconds"]), KEDA.targets["backlog"])
        self.assertEqual(float(values["refusedPercent"]), KEDA.targets["refusals"])


class AutoscalerTest(unittest.TestCase):
    """The rules of the controller's documentation."""

    RULES = autoscaler.Rules(2, 20, {}, autoscaler.Rules.behavior_of(
        {"scaleDown": {"stabilizationWindowSeconds": 60, "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}}))

    def test_tolerates_a_tenth(self):
        self.assertEqual(autoscaler.by_average(10, 54, 5), 10)
        self.assertEqual(autoscaler.by_average(10, 56, 5), 12)
        self.assertEqual(autoscaler.by_utilization(4, [0.76] * 4, 0.7), 4)
        self.assertEqual(autoscaler.by_utilization(4, [0.84] * 4, 0.7), 5)

    def test_counts_starting_replicas_as_idle(self):
        self.assertEqual(autoscaler.by_utilization(4, [1.0] * 2, 0.7), 4)
        self.assertEqual(autoscaler.by_utilization(3, [1.0] * 3, 0.7), 5)

    def test_rises_by_four_or_by_as_many_as_there_are(self):
        scaler = autoscaler.Autoscaler(self.RULES)
        self.assertEqual(scaler.decide(0, 2, 20), 6)
        self.assertEqual(scaler.decide(15, 6, 20), 12)
        self.assertEqual(scaler.decide(30, 12, 40), 20)

    def test_falls_after_the_window_and_one_a_minute(self):
        scaler = autoscaler.Autoscaler(self.RULES)
        decided, replicas = [], 6
        for now in range(0, 240, 15):
            replicas = scaler.decide(now, replicas, 6 if now == 0 else 2)
            decided.append(replicas)
        self.assertEqual(decided, [6] * 5 + [5] * 4 + [4] * 4 + [3] * 3)


def print_table():
    print("| autoscaler | load | refused | turns | replicas: least, mean, most | busy | wait, median and 99 % |\n" + "| --- " * 7 + "|")
    cases = (("cpu", HPA, START_S), ("keda", KEDA, START_S), ("keda, a start of 90 s", KEDA, 90),
             ("the backlog alone", only(KEDA, "backlog"), START_S))
    for title, rules, start_s in cases:
        for name, (rate_at, seconds) in TRACES.items():
            cluster = simulate(rules, name, start_s)
            counts, waits_s = cluster.counts, sorted(cluster.waits_s)
            busy = sum(map(rate_at, range(seconds))) * cluster_model.CORE_S_PER_IMAGE / CORES / sum(counts)
            print(f"| {title} | {name} | {cluster.refused / cluster.total:.2%} | {turns(counts)} "
                  f"| {min(counts)}, {sum(counts) / seconds:.1f}, {max(counts)} | {busy:.0%} "
                  f"| {waits_s[len(waits_s) // 2]:.2f} s, {waits_s[len(waits_s) * 99 // 100]:.1f} s |")


if __name__ == "__main__":
    print_table() if "--table" in sys.argv else unittest.main()
