"""A hundred replicas with a broker of jobs, second by second: the load of each resource, and when refused calls come back."""
import collections
import dataclasses

import cluster_model
from cluster_model import CORE_S_PER_IMAGE

# A worker asks an empty queue twice a second, and tells how far its job is each third of a lease of 60 s.
POLL_S = 0.5
HEARTBEAT_S = 20
WORKERS = 2  # on each replica: one job for each core


@dataclasses.dataclass(frozen=True)
class Broker:
    """Milliseconds of one call of each kind at p50, of a million jobs (tests/bench/RESULTS.md). `at_once`: how many calls it
    runs side by side."""

    name: str
    submit_ms: float
    claim_ms: float
    heartbeat_ms: float
    end_ms: float
    at_once: int = 1

    def load(self, submitted, begun, running, idle):
        """The share of a second that it works, for what happens in one."""
        polls = idle / POLL_S
        busy_ms = (submitted * self.submit_ms + (begun + polls) * self.claim_ms + running / HEARTBEAT_S * self.heartbeat_ms
                   + begun * self.end_ms)
        return busy_ms / 1000 / self.at_once


REDIS = Broker("Redis", 0.08, 1.19, 0.03, 0.04)


class Rules:
    """As many replicas as there are."""

    def __init__(self, replicas):
        self.min_replicas = self.max_replicas = replicas
        self.targets, self.behavior = {}, {}


class Fleet(cluster_model.Cluster):
    """`jobs_at(second)`: jobs a second, that run while cores have nothing else to do. `own_moments`: each refused call is told
    a moment of its own, as the server does; otherwise all are told the same one. The servers' metrics are in `peaks`."""

    def __init__(self, replicas, cores, broker, jobs_at, own_moments=True, seed=1):
        super().__init__(Rules(replicas), cores, 0, replicas, seed)
        self.broker, self.jobs_at, self.own_moments = broker, jobs_at, own_moments
        self.turns_end = 0.0  # of the moments that were handed out
        self.arrivals = []  # calls of each second, those that come again included
        self.queued_jobs = self.done_jobs = 0.0
        self.peaks = collections.Counter()  # the highest share of each resource that was in use
        self.broker_share = []

    def scale(self, now):
        pass

    def come_again(self, now, tries, count):
        """A refusal with a moment costs no try."""
        first = now + 1
        if not self.own_moments:
            self.waiting[first + cluster_model.RETRY_S][tries] += count
            return
        self.turns_end = max(self.turns_end, first)
        for _ in range(count):
            self.turns_end += 1 / self.pace()
            self.waiting[int(self.turns_end)][tries] += 1

    def serve(self, now, rate):
        before = self.total
        super().serve(now, rate)
        self.arrivals.append(self.total - before)
        self.run_jobs(now)
        busy = sum(replica.used[-1] for replica in self.replicas) / len(self.replicas)
        slots = max(replica.work for replica in self.replicas) / cluster_model.FULL
        self.note("cores", busy)  # upscaled_device_busy_seconds_total
        self.note("slots", slots)  # upscaled_requests_in_flight

    def run_jobs(self, now):
        """In the time that calls leave."""
        submitted = self.poisson(self.jobs_at(now))
        self.queued_jobs += submitted
        idle_cores = sum(self.cores * (1 - replica.used[-1]) for replica in self.replicas)
        begun = min(self.queued_jobs, idle_cores / CORE_S_PER_IMAGE)
        self.queued_jobs -= begun
        self.done_jobs += begun
        running = begun * CORE_S_PER_IMAGE
        idle_workers = max(0.0, WORKERS * len(self.replicas) - running) if self.queued_jobs < 1 else 0
        share = self.broker.load(submitted, begun, running, idle_workers)
        self.broker_share.append(share)
        self.note("broker", share)

    def note(self, name, share):
        self.peaks[name] = max(self.peaks[name], share)

    def pressure(self, begin):
        """The most calls of a second from `begin` on, by those for which room becomes free in one."""
        return max(self.arrivals[begin:]) / self.pace()

    def pace(self):
        return len(self.replicas) * self.cores / CORE_S_PER_IMAGE
