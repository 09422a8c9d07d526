"""A model of replicas under load, second by second, for autoscalers to be tried on: what they queue, refuse and export."""
import collections
import random

import autoscaler

# The figures of a replica as deploy/kubernetes has it. An image is one of docs/operating.md's sizing: 1 megapixel, general-2x, JPEG.
CORE_S_PER_IMAGE = 0.65
SLOTS = 100  # --max-concurrent-requests
RETRY_S = 5  # after a refusal, on average; a call that is refused comes again
MAX_TRIES = 6
# How old what an autoscaler sees is.
SCRAPE_S = 10
CPU_WINDOW_S = 30  # of metrics-server
RATE_WINDOW_S = 60  # of the query for refusals


FULL = SLOTS * CORE_S_PER_IMAGE


class Replica:
    def __init__(self, ready_at):
        self.ready_at = ready_at
        self.work = 0.0  # core-seconds admitted and not computed
        self.used = collections.deque([0.0] * CPU_WINDOW_S, maxlen=CPU_WINDOW_S)  # of each second, a share

    def compute(self, cores):
        done = min(self.work, cores)
        self.work -= done
        self.used.append(done / cores)


class Cluster:
    """`start_s`: from the decision for a replica to its first call."""

    def __init__(self, rules, cores, start_s, replicas=None, seed=1):
        self.rules, self.cores, self.start_s = rules, cores, start_s
        self.random = random.Random(seed)
        self.scaler = autoscaler.Autoscaler(rules)
        self.replicas = [Replica(0) for _ in range(replicas or rules.min_replicas)]
        self.leaving = []
        self.waiting = collections.defaultdict(collections.Counter)  # by second: tries made -> calls
        self.calls = collections.deque([(0, 0)] * RATE_WINDOW_S, maxlen=RATE_WINDOW_S)  # (calls, refused) of each second
        self.total = self.refused = self.lost = 0
        self.counts = []  # replicas at each second
        self.waits_s = []  # for a result, at each second that had calls, at the least busy replica
        self.seen = {}

    def run(self, rate_at, seconds):
        """`rate_at(second)`: images a second."""
        for now in range(seconds):
            self.serve(now, rate_at(now))
            if now % SCRAPE_S == 0:
                self.seen = self.export(now)
            if now % autoscaler.SYNC_S == 0:
                self.scale(now)
            self.counts.append(len(self.replicas))
        return self

    def serve(self, now, rate):
        ready = [replica for replica in self.replicas if replica.ready_at <= now]
        arrived = self.waiting.pop(now, collections.Counter())
        arrived[0] += self.poisson(rate)
        calls, refused = sum(arrived.values()), 0
        if calls:
            self.waits_s.append(min(replica.work for replica in ready) / self.cores + CORE_S_PER_IMAGE)
        for tries, count in arrived.items():
            admitted = self.admit(ready, count)
            refused += count - admitted
            self.come_again(now, tries, count - admitted)
        self.calls.append((calls, refused))
        self.total += calls
        self.refused += refused
        for replica in ready + self.leaving:
            replica.compute(self.cores)
        self.leaving = [replica for replica in self.leaving if replica.work > 0]

    def come_again(self, now, tries, count):
        """Calls that were refused at this try."""
        if tries + 1 < MAX_TRIES:
            self.waiting[now + self.random.randint(1, 2 * RETRY_S - 1)][tries + 1] += count
        else:
            self.lost += count

    def admit(self, ready, count):
        """How many get a slot; the proxy asks whom has the fewest calls (least_conn), so that all fill to one level."""
        if count == 0:
            return 0
        offered = self.random.gammavariate(count, CORE_S_PER_IMAGE)  # of so many, exponential each
        ready.sort(key=lambda replica: replica.work)
        taken = min(offered, sum(max(0.0, FULL - replica.work) for replica in ready))
        level, number, below = 0.0, 0, 0.0
        for number, replica in enumerate(ready, 1):
            below += replica.work
            level = (taken + below) / number
            if number == len(ready) or level <= ready[number].work:
                break
        for replica in ready[:number]:
            replica.work = level
        return round(count * taken / offered)

    def poisson(self, mean):
        if mean > 20:
            return max(0, round(self.random.gauss(mean, mean**0.5)))
        count, time = 0, self.random.expovariate(1)
        while time < mean:
            count += 1
            time += self.random.expovariate(1)
        return count

    def export(self, now):
        """The metrics that Prometheus and metrics-server see now."""
        ready = [replica for replica in self.replicas if replica.ready_at <= now]
        calls, refused = (sum(column) for column in zip(*self.calls))
        return {
            "cpu": [sum(replica.used) / CPU_WINDOW_S for replica in ready],
            "backlog": sum(replica.work for replica in ready) / self.cores,
            "refusals": 100 * refused / calls if calls else 0,
        }

    def scale(self, now):
        replicas, wanted = len(self.replicas), []
        for kind, target in self.rules.targets.items():
            if kind == "cpu":
                wanted.append(autoscaler.by_utilization(replicas, self.seen["cpu"], target))
            else:
                wanted.append(autoscaler.by_average(replicas, self.seen[kind], target))
        decided = self.scaler.decide(now, replicas, max(wanted))
        self.replicas += [Replica(now + self.start_s) for _ in range(decided - replicas)]
        for _ in range(replicas - decided):  # those that started last, as Kubernetes has it
            self.leaving.append(self.replicas.pop())
