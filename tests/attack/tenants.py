"""Parts of soak.py for a quiet machine and by hand: what tenants get beside each other, whether retry delays are
right, and whether what is admitted keeps its deadline."""
import collections
import json
import random
import subprocess
import time

import harness
import messages
import wire

MAX_P99_RATIO = 1.3
PAUSE_S = 0.1  # between two calls of a client whose latency is measured
SIDE_PX = 512  # of its images

QUOTA_PIXELS_PER_S = 200_000  # of the greedy tenant, a tenth of what two cores compute
GREEDY_SIDES_PX = (128, 512)  # what refusing costs is a matter of their number
GREEDY_CALLS = 8  # at a time: refusals come at once
MODEST_CONNECTIONS = 4  # without a pause, where throughput is measured
MIN_SHARE = 0.95

BACKGROUND_SIDE_PX = 1024
BACKGROUND_CALLS = 4  # at a time

RETRY_RATE = 100_000  # pixels or bytes a second
RETRY_SLACK_S = 0.03  # of a call that is sent when it may come in
MIN_RETRY_S = 0.2  # the server tells no shorter delay where it is an estimate
MAX_RETRY_ERROR = 0.2
RETRY_DEBT_SIDE_PX = 350
RETRY_CALL_SIDE_PX = 1000  # of what others wait for: of many tiles, as a queue becomes shorter by one at a time,
RETRY_CALL = {"tta": True, "format": messages.pb.IMAGE_FORMAT_JPEG}  # and of few bytes, as clients are slow to take them
RETRY_ASKED_SIDE_PX = 350  # of what is refused
RETRY_OTHERS = 2  # connections without a pause of a tenant beside it

# By the image's side: how often it comes, and its deadlines, from and to.
DEADLINE_SIDES = {128: (0.85, 0.05, 1.0), 320: (0.13, 0.1, 3.0), 1000: (0.02, 1.0, 8.0)}
DEADLINE_MODELS = ("general-2x", "general-2x", "fast-2x")
DEADLINE_CALLS_PER_S = 110  # about twice what two cores compute
DEADLINE_CONNECTIONS = 8
MIN_IN_TIME = 0.95

# The tenants in the key file of each part. They have a key each.
TENANTS = {
    "quota": {"modest": {}, "greedy": {"pixels_per_second": QUOTA_PIXELS_PER_S}},
    "background": {"modest": {}, "night": {"priority": "background"}},
    "retries": {
        "modest": {},
        "calls": {"calls": 1},
        "queue": {"queue_pixels": 2_000_000},
        "pixels": {"pixels_per_second": RETRY_RATE},
        "bytes": {"bytes_per_second": RETRY_RATE},
    },
}


def write_keys(binary, folder, tenants):
    """A file of keys for these tenants, and the keys by tenant."""
    keys, entries = {}, []
    for tenant in tenants:
        command = [binary, "keys", "new", "--name", tenant, "--tenant", tenant, "--role", "upscale"]
        made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        keys[tenant], entry = made.split(maxsplit=1)
        entries.append(json.loads(entry))
    limits = {tenant: limit for tenant, limit in tenants.items() if limit}
    with open(f"{folder}/keys.json", "w", encoding="utf-8") as file:
        json.dump({"keys": entries, "tenants": limits}, file)
    return keys


def quantile(times, share):
    return sorted(times)[int(share * (len(times) - 1))]


class Flood:
    """A tenant that keeps so many calls under way, whatever the server says to it."""

    def __init__(self, target, tenant, side_px, calls, **options):
        self.target, self.tenant, self.calls, self.start = target, tenant, calls, messages.image_start(**options)
        self.connection = target.connect()
        self.extra = (("x-api-key", target.server.keys[tenant]),)
        self.image = messages.png(side_px, side_px)
        self.done = 0

    def turn(self):
        """Takes what has ended. Returns the answers that are refusals."""
        self.connection.poll()
        refusals = []
        for stream in [stream for stream, answer in self.connection.answers.items() if answer.ended]:
            answer = self.connection.answers.pop(stream)
            self.done += answer.status == 0
            if answer.status != 0:
                refusals.append(answer)
        return refusals

    def call(self):
        if len(self.connection.answers) < self.calls:
            self.connection.open(wire.IMAGE, self.start, *messages.image_chunks(messages.distinct(self.image)),
                                 end=True, extra=self.extra)

    def fill(self):
        refusals = self.turn()
        while len(self.connection.answers) < self.calls:
            self.call()
        if refusals:
            self.target.complain(f"{self.tenant} is refused: {refusals[0].headers.get('grpc-message')}")


def victim(target):
    key = target.server.keys["modest"]
    return harness.Victim(harness.GrpcCall(target.server, key=key, side_px=SIDE_PX), PAUSE_S)


class Greedy(Flood):
    """Calls at ten times its quota."""

    def __init__(self, target, side_px):
        super().__init__(target, "greedy", side_px, GREEDY_CALLS)
        self._period_s = side_px**2 / (10 * QUOTA_PIXELS_PER_S)
        self._due = time.monotonic()
        self.refused = 0

    def turn(self):
        for answer in super().turn():
            self.refused += 1
            if "tenant.pixels_per_second" not in answer.headers.get("grpc-message", ""):
                self.target.complain(f"a refusal says {answer.headers.get('grpc-message')}")
            if int(answer.headers.get("grpc-retry-pushback-ms", 0)) <= 0:
                self.target.complain("a refusal does not say when to come back")
        if time.monotonic() >= self._due:
            self._due = max(self._due + self._period_s, time.monotonic())
            self.call()


def spend(seconds, *clients):
    """Lets clients take their turns for so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for client in clients:
            client()
        time.sleep(0.001)


def quota(target):
    """A tenant within its quota alone, then beside one that calls at ten times its own: its p99, its throughput."""
    paced = victim(target)
    greedy = [Greedy(target, side_px) for side_px in GREEDY_SIDES_PX]
    part_s = target.seconds / 2 / (1 + len(greedy))
    spend(1, lambda: None)
    paced.take()
    p99_ms = []
    for others in ([], *([one.turn] for one in greedy)):
        spend(part_s, *others, lambda: None)
        times, error = paced.take()
        p99_ms.append(round(1000 * quantile(times, 0.99)))
        if error:
            target.complain(f"the modest tenant's calls failed: {error}")
    paced.stop()
    target.counts |= {"p99 alone and beside, ms": p99_ms, "greedy done": [one.done for one in greedy],
                      "greedy refused": [one.refused for one in greedy]}
    if not all(one.refused for one in greedy):
        target.complain("the greedy tenant was never refused")
    if max(p99_ms) > MAX_P99_RATIO * p99_ms[0]:
        target.complain(f"the modest tenant's p99 rose from {p99_ms[0]} ms to {max(p99_ms)} ms")
    throughput(target, greedy, part_s)


def throughput(target, greedy, seconds):
    """Pixels a second of the modest tenant without pauses, alone and beside the greedy one. Its share is what the
    other's quota leaves, or half of the machine if that is less."""
    full = [Flood(target, "modest", SIDE_PX, 1) for _ in range(MODEST_CONNECTIONS)]
    fill = [flood.fill for flood in full]
    rates, cores = [], []
    spend(1, *fill)
    for others in ([], *([one.turn] for one in greedy)):
        before, used_s = sum(flood.done for flood in full), (target.server.cpu_s(), time.process_time())
        spend(seconds, *fill, *others)
        rates.append((sum(flood.done for flood in full) - before) * SIDE_PX**2 / seconds)
        now_s = (target.server.cpu_s(), time.process_time())
        cores.append([round((end - begin) / seconds, 2) for begin, end in zip(used_s, now_s)])
    share = min(rates[0] - QUOTA_PIXELS_PER_S, rates[0] / 2)
    target.counts |= {"pixels/s alone and beside": [round(rate) for rate in rates],
                      "cores of the server and of this client": cores}
    if min(rates) < MIN_SHARE * share:
        target.complain(f"the modest tenant had {min(rates):.0f} pixels a second of its {share:.0f}")


def tile_s(before, after):
    """Seconds that a tile ran between two looks at the metrics, a batch's time shared out."""
    def grown(name):
        return after[name] - before[name]

    return grown("upscaled_infer_duration_seconds_sum") / max(1, grown("upscaled_tiles_total"))


def background(target):
    """An interactive image alone, then beside a flood of background ones: later by one of their tiles at most."""
    paced = victim(target)
    flood = Flood(target, "night", BACKGROUND_SIDE_PX, BACKGROUND_CALLS)
    spend(1, lambda: None)
    paced.take()
    spend(target.seconds / 2, lambda: None)
    alone_s, error = paced.take()
    before = target.server.metrics()
    spend(target.seconds / 2, flood.fill)
    beside_s, error_beside = paced.take()
    tile = tile_s(before, target.server.metrics())
    paced.stop()
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        alone, beside = quantile(alone_s, share), quantile(beside_s, share)
        target.counts |= {f"{name} alone, ms": round(1000 * alone, 1), f"{name} beside": round(1000 * beside, 1),
                          f"{name} in tiles later": round((beside - alone) / tile, 2)}
    target.counts |= {"a tile, ms": round(1000 * tile, 1), "calls alone": len(alone_s), "calls beside": len(beside_s),
                      "background images": flood.done}
    if error or error_beside:
        target.complain(f"the interactive tenant's calls failed: {error or error_beside}")
    if not flood.done:
        target.complain("no background image was computed")
    if quantile(beside_s, 0.5) > quantile(alone_s, 0.5) + tile:
        target.complain("the median of the interactive calls is later by more than one tile")


class Asker:
    """Asks for one image again and again."""

    def __init__(self, target, tenant, side_px=16):
        self.connection = target.connect(timeout_s=10.0)
        self.extra = (("x-api-key", target.server.keys[tenant]),)
        self.image = messages.png(side_px, side_px)

    def ask(self):
        """The seconds that the server says to wait; None when it computes the image."""
        answer = self.connection.call(wire.UNARY, messages.unary(messages.distinct(self.image)), extra=self.extra)
        if answer.status == 0:
            return None
        if answer.status != 8:
            raise OSError(f"status {answer.status}: {answer.headers.get('grpc-message')}")
        return int(answer.headers["grpc-retry-pushback-ms"]) / 1000

    def ask_at(self, when):
        time.sleep(max(0.0, when - time.monotonic()))
        return self.ask()


def rate(target, tenant, end):
    """Refused shortly before the delay of a refusal is over, and admitted just after it. Yields delays and errors."""
    asker, debtor = Asker(target, tenant), Flood(target, tenant, RETRY_DEBT_SIDE_PX, 1)
    while time.monotonic() < end:
        debtor.call()
        while debtor.connection.answers:
            debtor.turn()
        start = time.monotonic()
        delay = asker.ask()
        if delay is None or asker.ask_at(start + (1 - MAX_RETRY_ERROR) * delay) is None:
            target.complain(f"{tenant}: admitted before it was time")
        elif asker.ask_at(start + delay + RETRY_SLACK_S) is not None:
            target.complain(f"{tenant}: refused {1000 * RETRY_SLACK_S:.0f} ms after the delay of {delay} s")
        else:
            yield delay, 0.0
        time.sleep(0.2)


def queue(target, tenant, end, others=0):
    """How much later or earlier than it was told a call is admitted, in parts of that, refused at some time of
    another's life, while a tenant beside it keeps `others` under way. Yields delays and errors."""
    asker = Asker(target, tenant, RETRY_ASKED_SIDE_PX)
    large = Flood(target, tenant, RETRY_CALL_SIDE_PX, 1, **RETRY_CALL)
    turns = [large.turn] + [Flood(target, "modest", SIDE_PX, 1).fill for _ in range(others)]
    while time.monotonic() < end:
        large.call()
        spend(random.uniform(0.3, 1.5), *turns)
        start = time.monotonic()
        delay = asker.ask()
        if delay is None:
            target.count(f"{tenant}: rounds without a refusal")
        else:
            while asker.ask() is not None:
                spend(max(0.005, delay / 50), *turns)  # seldom, so that asking delays nothing
            yield delay, (time.monotonic() - start) / delay - 1
        while large.connection.answers:
            spend(0.005, *turns)


def queue_beside(target, tenant, end):
    """The same beside a tenant that computes without a pause."""
    return queue(target, tenant, end, RETRY_OTHERS)


def retries(target):
    """After each refusal of a tenant's limits: whether the delay that it tells is right."""
    parts = [(tenant, rounds) for rounds in (queue, queue_beside) for tenant in ("calls", "queue")]
    parts += [(tenant, rate) for tenant in ("pixels", "bytes")]
    for tenant, rounds in parts:
        end = time.monotonic() + target.seconds / len(parts)
        judged = [(delay, error) for delay, error in rounds(target, tenant, end) if delay > MIN_RETRY_S]
        name = f"{tenant}, {rounds.__name__}"
        if not judged:
            target.complain(f"{name}: no delay to judge")
            continue
        errors = sorted(error for _, error in judged)
        within = sum(abs(error) <= MAX_RETRY_ERROR for error in errors)
        target.counts[name] = {"delays, s": [round(delay, 3) for delay, _ in judged],
                                 "errors": [round(error, 2) for _, error in judged], "right within 20 %": within}
        if abs(quantile(errors, 0.5)) > MAX_RETRY_ERROR:
            target.complain(f"{name}: half of the delays are off by {quantile(errors, 0.5):.2f} or more")


def deadlines(target):
    """More calls than can be computed, of several sizes, with random deadlines: what is admitted ends in time."""
    images = {side_px: messages.png(side_px, side_px) for side_px in DEADLINE_SIDES}
    connections = [target.connect() for _ in range(DEADLINE_CONNECTIONS)]
    ends = {side_px: collections.Counter() for side_px in DEADLINE_SIDES}
    under_way = {}  # sides
    chances = [chance for chance, *_ in DEADLINE_SIDES.values()]

    def take_ends():
        for connection in connections:
            connection.poll()
            for stream in [stream for stream, answer in connection.answers.items() if answer.ended]:
                ends[under_way.pop((connection, stream))][ending(connection.answers.pop(stream))] += 1

    for _ in target.paced(DEADLINE_CALLS_PER_S):
        side_px, = random.choices(list(DEADLINE_SIDES), chances)
        _, earliest_s, latest_s = DEADLINE_SIDES[side_px]
        timeout_ms = round(1000 * random.uniform(earliest_s, latest_s))
        connection = random.choice(connections)
        start = messages.image_start(model=random.choice(DEADLINE_MODELS), format=messages.pb.IMAGE_FORMAT_JPEG)
        stream = connection.open(wire.IMAGE, start, *messages.image_chunks(messages.distinct(images[side_px])), end=True,
                                 extra=(("grpc-timeout", f"{timeout_ms}m"),))
        under_way[connection, stream] = side_px
        take_ends()
    spend(max(latest_s for *_, latest_s in DEADLINE_SIDES.values()) + 1, take_ends)
    judge_deadlines(target, ends)


def ending(answer):
    if answer.status == 0:
        return "in time"
    if "the image would take" in answer.headers.get("grpc-message", ""):
        return "refused"
    return "refused otherwise" if answer.status == 8 else "late"


def judge_deadlines(target, ends):
    total = sum(ends.values(), collections.Counter())
    for name, counter in [*((f"{side_px} px", counter) for side_px, counter in ends.items()), ("all", total)]:
        admitted = counter["in time"] + counter["late"]
        target.counts[name] = dict(counter) | {"share in time": round(counter["in time"] / max(1, admitted), 4)}
        if counter["late"] > (1 - MIN_IN_TIME) * admitted:
            target.complain(f"{name}: {counter['late']} of {admitted} admitted calls were late")
    if not total["refused"]:
        target.complain("there was no overload")
