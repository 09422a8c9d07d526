#!/usr/bin/python3
"""Long load of well-meaning and careless clients: soak.py --upscaled FILE [--seconds N | --hours N] [PART ...].

Victims call beside each part. At the end nothing may be lost (every victim's call succeeded, within a second
of its usual time), nothing leaked (descriptors, threads, resident memory), and all counters are zero again.
"""
import argparse
import collections
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time

import forecasts
import harness
import messages
import wire

GAUGES = ("upscaled_requests_in_flight", "upscaled_queue_tiles", "upscaled_queue_pixels")
SETTLED = "upscaled_memory_reserved_bytes"  # the streams' scratch stays reserved
MAX_LEAK_BYTES = 64 << 20
MAX_LEAKED_DESCRIPTORS = 4
MAX_LEAKED_THREADS = 16  # gRPC keeps some
SETTLE_S = 15  # longer than threads stay idle
MEMORY_BUDGET = "4GiB"  # so that no victim is refused
CANCELLING_CONNECTIONS = 10
CANCELS_PER_S = 250  # over all of them: 100,000 in seven minutes
DROPS_PER_S = 100
ROTATION_S = 2.0
MAX_ROTATION_S = 15.0  # until a new certificate is presented
PEERS = [f"127.0.0.{host}" for host in range(3, 13)]  # with a client each
SHARE = 10  # calls or clients of the greedy address
SHARE_PEERS = 3  # beside it
SHARE_TILE = wire.envelope(messages.tile(64, 64))
SHARE_TILES = 32  # of a call under way: an address has work queued while the client is about others
MAX_SHARE = 4  # of another's: what clients are late with goes to those who are not; by calls it would be 10
LATENCY_PAUSE_S = 0.1  # between two calls of a client
MAX_P99_RATIO = 1.3
QUOTA_PIXELS_PER_S = 200_000  # of the greedy tenant, a tenth of what two cores compute
GREEDY_SIDE_PX, MODEST_SIDE_PX = 128, 512
GREEDY_CALLS = 8  # at a time: refusals come at once
GREEDY_CALLS_PER_S = 10 * QUOTA_PIXELS_PER_S / GREEDY_SIDE_PX**2
DEADLINE_SIDE_PX = 128
DEADLINE_MODELS = ("general-2x", "general-2x", "fast-2x")
DEADLINE_CALLS_PER_S = 300  # about twice what two cores compute
DEADLINE_CONNECTIONS = 8
DEADLINES_S = (0.05, 1.0)  # from and to
MIN_IN_TIME = 0.95


def random_call(connection, image):
    """Begins one of the calls there are, whole or not."""
    kind = random.randrange(4)
    image = messages.distinct(image)
    if kind == 0:
        return connection.open(wire.UNARY, messages.unary(image), end=True)
    if kind == 1:
        return connection.open(wire.IMAGE, messages.image_start(), messages.image_chunk(image), end=True)
    if kind == 2:
        return connection.open(wire.IMAGE, messages.image_start(), messages.image_chunk(image[:999]))
    some = [messages.tile(1 + random.randrange(64), 1 + random.randrange(64)) for _ in range(8)]
    return connection.open(wire.TILES, messages.tiles_start(), *some)


def cancels(target):
    """Calls of every kind, cancelled at random times."""
    image = messages.png(96, 96)
    connections = []
    pending = collections.deque()
    for _ in target.paced(CANCELS_PER_S):
        try:
            while len(connections) < CANCELLING_CONNECTIONS:
                connections.append(target.connect())
            connection = random.choice(connections)
            pending.append((time.monotonic() + random.expovariate(20), connection, random_call(connection, image)))
            while pending and pending[0][0] < time.monotonic():
                _, connection, stream = pending.popleft()
                connection.poll()
                connection.reset(stream)
                target.count("cancelled")
        except OSError:
            target.count("connections ended")
            target.kept.remove(connection)
            connections.remove(connection)
            connection.close()
            pending = collections.deque(entry for entry in pending if entry[1] is not connection)
    target.kept.clear()


def drops(target):
    """Connections opened and dropped at once, amid the preface, or amid a call."""
    image = messages.png(96, 96)
    for _ in target.paced(DROPS_PER_S):
        try:
            connection = wire.Connection(target.server.grpc, tls=target.server.tls)
            if random.random() < 0.5:
                random_call(connection, image)
            connection.close()
            target.count("dropped")
        except OSError:
            target.count("refused")


def certificate(server):
    connection = wire.Connection(server.grpc, harness.VICTIM, tls=server.tls)
    presented = connection.socket.getpeercert(True)
    connection.close()
    return presented


def rotation(target):
    """New certificates at the old paths, under load: new connections see them, and none fails."""
    folder = target.server.folder.name
    while target.left_s() > 0:
        before = certificate(target.server)
        harness.make_certificate(folder, "next")
        for kind in ("key", "pem"):
            shutil.move(f"{folder}/next.{kind}", f"{folder}/server.{kind}")
        start = time.monotonic()
        while certificate(target.server) == before:
            if time.monotonic() > start + MAX_ROTATION_S:
                return target.complain(f"a certificate {MAX_ROTATION_S:.0f} s old is not presented yet")
            time.sleep(0.1)
        target.count("rotations")
        time.sleep(ROTATION_S)


class TileClient:
    """Calls of raw tiles from one address, each with tiles under way all the time."""

    def __init__(self, target, source, calls):
        self.connection = target.connect(source=source)
        self.streams = [self.connection.open(wire.TILES, messages.tiles_start()) for _ in range(calls)]
        self.tiles = 0  # that came back
        for stream in self.streams:
            self.connection.send_data(stream, SHARE_TILE * SHARE_TILES)

    def turn(self):
        """Sends a tile for each that has come back."""
        self.connection.poll()
        for stream in self.streams:
            answer = self.connection.answers[stream]
            if answer.ended:
                raise ConnectionResetError(f"a call ended with status {answer.status}")
            back = answer.forget_messages()
            self.tiles += back
            self.connection.send_data(stream, SHARE_TILE * back)


def share(target):
    """One address with ten times the calls of the others. Each address is served alike."""
    clients = [TileClient(target, source, 1) for source in PEERS[:SHARE_PEERS]]
    clients.append(TileClient(target, "127.0.0.1", SHARE))
    try:
        while target.left_s() > 0:
            for client in clients:
                client.turn()
            time.sleep(0.001)
    except OSError as error:
        target.complain(f"a client's calls ended: {error}")
    *others, greedy = (client.tiles for client in clients)
    target.counts |= {"tiles of the others": sum(others), "of the greedy one": greedy}
    if min(others) == 0 or greedy > MAX_SHARE * min(others):
        target.complain(f"the greedy address had {greedy} tiles computed, the others {others}")
    for client in clients:
        client.connection.close()
    target.kept.clear()


def p99(times):
    return sorted(times)[int(0.99 * (len(times) - 1))]


def latency(target):
    """Eleven addresses with a client each; then one of them has ten. The others' p99 stays."""

    def client(source):
        return harness.Victim(harness.GrpcCall(target.server, source), LATENCY_PAUSE_S)

    peers = [client(source) for source in PEERS]
    greedy = [client("127.0.0.1")]
    time.sleep(1)
    for peer in peers:
        peer.take()
    p99_s = []
    for _ in ("even", "greedy"):
        time.sleep(target.seconds / 2)
        p99_s.append(p99([seconds for peer in peers for seconds in peer.take()[0]]))
        greedy += [client("127.0.0.1") for _ in range(SHARE - len(greedy))]
    for one in peers + greedy:
        one.stop()
    target.counts |= {"even p99 ms": round(1000 * p99_s[0]), "greedy p99 ms": round(1000 * p99_s[1])}
    if p99_s[1] > MAX_P99_RATIO * p99_s[0]:
        target.complain(f"p99 of the others rose from {p99_s[0]:.3f} s to {p99_s[1]:.3f} s")


class GreedyTenant:
    """Calls at ten times its quota, whatever the server says to it."""

    def __init__(self, target):
        self.target = target
        self.connection = target.connect()
        self.extra = (("x-api-key", target.server.keys["greedy"]),)
        self.image = messages.png(GREEDY_SIDE_PX, GREEDY_SIDE_PX)

    def call(self):
        self.connection.poll()
        if len(self.connection.answers) < GREEDY_CALLS:
            self.connection.open(wire.UNARY, messages.unary(messages.distinct(self.image)), end=True, extra=self.extra)
        for stream in [stream for stream, answer in self.connection.answers.items() if answer.ended]:
            answer = self.connection.answers.pop(stream)
            self.target.count("done" if answer.status == 0 else "refused")
            if answer.status and "tenant.pixels_per_second" not in answer.headers.get("grpc-message", ""):
                self.target.complain(f"a refusal says {answer.headers.get('grpc-message')}")
            if answer.status and int(answer.headers.get("grpc-retry-pushback-ms", 0)) <= 0:
                self.target.complain("a refusal does not say when to come back")


def quota(target):
    """A tenant within its quota alone, then beside one that calls at ten times its own."""
    modest = harness.Victim(
        harness.GrpcCall(target.server, key=target.server.keys["modest"], side_px=MODEST_SIDE_PX), LATENCY_PAUSE_S)
    greedy = GreedyTenant(target)
    time.sleep(1)
    modest.take()
    time.sleep(target.seconds / 2)
    alone_s, error = modest.take()
    target.seconds /= 2
    for _ in target.paced(GREEDY_CALLS_PER_S):
        greedy.call()
    beside_s, error_beside = modest.take()
    modest.stop()
    target.counts |= {"alone p99 ms": round(1000 * p99(alone_s)), "beside p99 ms": round(1000 * p99(beside_s)),
                      "calls alone": len(alone_s), "beside": len(beside_s)}
    if error or error_beside:
        target.complain(f"the modest tenant's calls failed: {error or error_beside}")
    if not target.counts.get("refused"):
        target.complain("the greedy tenant was never refused")
    if p99(beside_s) > MAX_P99_RATIO * p99(alone_s):
        target.complain(f"the modest tenant's p99 rose from {p99(alone_s):.3f} s to {p99(beside_s):.3f} s")


def ended(server, labels):
    """Finished calls of the unary method."""
    return sum(value for name, value in server.metrics().items()
               if name.startswith("upscaled_requests_total{") and all(label in name for label in labels))


def deadlines(target):
    """More calls than can be computed, with random deadlines: what is admitted ends in time."""
    image = messages.png(DEADLINE_SIDE_PX, DEADLINE_SIDE_PX)
    connections = [target.connect() for _ in range(DEADLINE_CONNECTIONS)]
    late = ['code="DEADLINE_EXCEEDED"']
    late_before = ended(target.server, late)
    for _ in target.paced(DEADLINE_CALLS_PER_S):
        connection = random.choice(connections)
        timeout_ms = round(1000 * random.uniform(*DEADLINES_S))
        call = messages.unary(messages.distinct(image), model=random.choice(DEADLINE_MODELS))
        connection.open(wire.UNARY, call, end=True, extra=(("grpc-timeout", f"{timeout_ms}m"),))
        target.count("calls")
        for connection in connections:
            take_ends(target, connection)
    wait_s = time.monotonic() + 2 * DEADLINES_S[1]
    while time.monotonic() < wait_s:
        for connection in connections:
            take_ends(target, connection)
        time.sleep(0.01)
    missed = ended(target.server, late) - late_before
    in_time = target.counts.get("in time", 0)
    target.counts |= {"late": round(missed), "share in time": round(in_time / max(1, in_time + missed), 4)}
    if target.counts["share in time"] < MIN_IN_TIME:
        target.complain(f"{missed:.0f} of {in_time + missed:.0f} admitted calls were late")
    if not target.counts.get("refused for their deadline"):
        target.complain("there was no overload")


def take_ends(target, connection):
    connection.poll()
    for stream in [stream for stream, answer in connection.answers.items() if answer.ended]:
        answer = connection.answers.pop(stream)
        message = answer.headers.get("grpc-message", "")
        if answer.status == 0:
            target.count("in time")
        elif "the image would take" in message:
            target.count("refused for their deadline")
        elif answer.status == 8:
            target.count("refused otherwise")


def write_keys(binary, folder):
    """A file of keys for two tenants, and the keys by tenant."""
    keys, entries = {}, []
    for tenant in ("modest", "greedy"):
        command = [binary, "keys", "new", "--name", tenant, "--tenant", tenant, "--role", "upscale"]
        made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        keys[tenant], entry = made.split(maxsplit=1)
        entries.append(json.loads(entry))
    tenants = {"greedy": {"pixels_per_second": QUOTA_PIXELS_PER_S}}
    with open(f"{folder}/keys.json", "w", encoding="utf-8") as file:
        json.dump({"keys": entries, "tenants": tenants}, file)
    return keys


def settle(server, before):
    """Waits until the counters are back; complains of what is not."""
    deadline = time.monotonic() + SETTLE_S
    while True:
        now = server.metrics()
        left = [f"{name} is {now[name]:.0f}" for name in GAUGES if now[name] != 0]
        if now[SETTLED] > before[SETTLED]:
            left.append(f"{SETTLED} is {now[SETTLED]:.0f}, it was {before[SETTLED]:.0f}")
        if server.descriptors() > before["descriptors"] + MAX_LEAKED_DESCRIPTORS:
            left.append(f"{server.descriptors()} descriptors, they were {before['descriptors']}")
        if server.status("Threads") > before["threads"] + MAX_LEAKED_THREADS:
            left.append(f"{server.status('Threads')} threads, they were {before['threads']}")
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.2)


def load(part, server, seconds):
    attacker = harness.Attacker(part, server, seconds, 0 if part in (latency, quota, deadlines) else harness.ATTACKER_NICE)
    try:
        return attacker.wait()
    finally:
        attacker.stop()


def run(part, binary, seconds):
    """One part against a server of its own. Returns counts and complaints."""
    flags = [f"--memory-budget={MEMORY_BUDGET}", f"--max-concurrent-requests={400 if part is deadlines else 100}"]
    folder = tempfile.TemporaryDirectory()
    keys = {}
    if part is quota:
        keys = write_keys(binary, folder.name)
        flags.append(f"--auth-keys={folder.name}/keys.json")
    if part is deadlines:
        flags.append(f"--audit-log={folder.name}/audit")
    server = harness.Server(binary, flags, tls=part is rotation)
    server.keys = keys
    victim = harness.Victim(harness.GrpcCall(server, key=keys.get("modest")))
    try:
        load(part, server, min(5, seconds / 3))  # what is kept for good is there after it
        usual_s = max(victim.take()[0])
        settle(server, {SETTLED: float("inf"), "descriptors": 0, "threads": 0})
        before = server.metrics() | {"descriptors": server.descriptors(), "threads": server.status("Threads")}
        resident = server.status("VmRSS")
        counts, complaints = load(part, server, seconds)
        taken, error = victim.take()
        victim.stop()
        if part not in (share, latency, quota) and max(taken) > usual_s + harness.MAX_DELAY_S or error:
            complaints.append(f"the victim's longest call took {max(taken):.2f} s: {error or 'no error'}")
        complaints += settle(server, before)
        grown = server.status("VmRSS") - resident
        counts |= {"victim's calls": len(taken), "resident growth KiB": grown >> 10}
        if grown > MAX_LEAK_BYTES:
            complaints.append(f"resident memory grew by {grown >> 20} MiB")
        exit_s, code = server.terminate()
        if code != 0:
            complaints.append(f"exit code {code} after {exit_s:.1f} s")
        if part is deadlines:
            print(forecasts.report(f"{folder.name}/audit"))
    finally:
        victim.stop()
        server.close()
        folder.cleanup()
    return counts, complaints


PARTS = (cancels, drops, rotation, share, latency, quota, deadlines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(part.__name__ for part in PARTS))
    parser.add_argument("--upscaled", required=True, help="the binary")
    parser.add_argument("--seconds", type=float, default=6, help="of each part")
    parser.add_argument("--hours", type=float, help="of all parts together")
    arguments = parser.parse_args()
    chosen = [part for part in PARTS if not arguments.parts or part.__name__ in arguments.parts]
    seconds = arguments.hours * 3600 / len(chosen) if arguments.hours else arguments.seconds
    if rotation in chosen and shutil.which("openssl") is None:
        print("SKIPPED: no openssl")
        return 77
    seed = random.randrange(1 << 32)
    random.seed(seed)
    failed = False
    for part in chosen:
        counts, complaints = run(part, arguments.upscaled, seconds)
        failed |= bool(complaints)
        print(f"{part.__name__}: {counts}; {'; '.join(complaints) or 'holds'} (seed {seed})", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
