"""Kubernetes' HorizontalPodAutoscaler as its controller computes (kubernetes/pkg/controller/podautoscaler, autoscaling/v2), by
rules that are read from the manifests of deploy/kubernetes. Times are in seconds."""
import collections
import dataclasses
import math

import yaml

SYNC_S = 15  # --horizontal-pod-autoscaler-sync-period
LONGEST_S = 3600  # that windows and periods may be
TOLERANCE = 0.1  # --horizontal-pod-autoscaler-tolerance
QUERIES = {"backlog": "upscaled_backlog_seconds", "refusals": "upscaled_request_failures_total"}
DEFAULT_BEHAVIOR = {
    "scaleUp": {"stabilizationWindowSeconds": 0, "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15}]},
    "scaleDown": {"stabilizationWindowSeconds": 300, "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]},
}


@dataclasses.dataclass
class Rules:
    """The rules of an autoscaler: `targets` are what a replica is to have of each metric, by kind."""

    min_replicas: int
    max_replicas: int
    targets: dict  # "cpu": a share of the request; "backlog", "refusals": what QUERIES give for each replica
    behavior: dict

    @staticmethod
    def behavior_of(told):
        return {way: {**default, **told.get(way, {})} for way, default in DEFAULT_BEHAVIOR.items()}

    @classmethod
    def of_hpa(cls, path):
        spec = yaml.safe_load(path.read_text())["spec"]
        targets = {metric["resource"]["name"]: metric["resource"]["target"]["averageUtilization"] / 100 for metric in spec["metrics"]}
        return cls(spec["minReplicas"], spec["maxReplicas"], targets, cls.behavior_of(spec["behavior"]))

    @classmethod
    def of_keda(cls, path):
        """KEDA makes an HPA of a ScaledObject; a trigger's threshold is for each replica."""
        spec = yaml.safe_load(path.read_text())["spec"]
        targets = {}
        for trigger in spec["triggers"]:
            if trigger["type"] == "cpu":
                targets["cpu"] = int(trigger["metadata"]["value"]) / 100
            else:
                (kind,) = [kind for kind, metric in QUERIES.items() if metric in trigger["metadata"]["query"]]
                targets[kind] = float(trigger["metadata"]["threshold"])
        behavior = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
        return cls(spec["minReplicaCount"], spec["maxReplicaCount"], targets, cls.behavior_of(behavior))


def by_utilization(replicas, shares, target):
    """`shares` of their request are what ready replicas use; others count as idle where the ready ones want more."""
    ratio = sum(shares) / len(shares) / target
    if len(shares) == replicas or ratio <= 1:
        return replicas if abs(ratio - 1) <= TOLERANCE else math.ceil(ratio * len(shares))
    ratio = sum(shares) / replicas / target
    return replicas if ratio - 1 <= TOLERANCE else math.ceil(ratio * replicas)


def by_average(replicas, total, target):
    ratio = total / (target * replicas)
    return replicas if abs(ratio - 1) <= TOLERANCE else math.ceil(total / target)


class Autoscaler:
    """Asked every SYNC_S for the number of replicas."""

    def __init__(self, rules):
        self.rules = rules
        self.recommended = collections.deque(maxlen=LONGEST_S // SYNC_S)  # (time, replicas)
        self.changes = collections.deque(maxlen=LONGEST_S // SYNC_S)  # (time, replicas more or less)

    def decide(self, now, replicas, wanted):
        """The replicas to have of those that the metrics want, after windows, policies and bounds."""
        if not self.recommended:
            self.recommended.append((now - SYNC_S, replicas))
        self.recommended.append((now, wanted))
        low, high = min(self._recommended(now, "scaleUp")), max(self._recommended(now, "scaleDown"))
        stable = min(max(replicas, low), high)
        if stable > replicas:
            stable = max(replicas, min(stable, self.rules.max_replicas, max(self._limits(now, replicas, "scaleUp", 1))))
        elif stable < replicas:
            stable = min(replicas, max(stable, self.rules.min_replicas, min(self._limits(now, replicas, "scaleDown", -1))))
        if stable != replicas:
            self.changes.append((now, stable - replicas))
        return stable

    def _recommended(self, now, way):
        begin = now - self.rules.behavior[way]["stabilizationWindowSeconds"]
        return [wanted for time, wanted in self.recommended if time >= begin]

    def _limits(self, now, replicas, way, sign):
        """How many replicas each policy of a way allows; the one that allows most change counts."""
        for policy in self.rules.behavior[way]["policies"]:
            start = replicas - sum(by for time, by in self.changes if time > now - policy["periodSeconds"])
            change = policy["value"] if policy["type"] == "Pods" else start * policy["value"] / 100
            yield math.ceil(start + sign * change) if sign > 0 else math.floor(start + sign * change)
