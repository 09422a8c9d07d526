#!/usr/bin/python3
"""Long load of well-meaning and careless clients: soak.py --upscaled FILE [--seconds N | --hours N] [PART ...].

Victims call beside each part. At the end nothing may be lost (every victim's call succeeded, within a second
of its usual time), nothing leaked (descriptors, threads, resident memory), and all counters are zero again.
"""
import argparse
import collections
import random
import shutil
import signal
import sys
import tempfile
import time

import bodies
import connections
import forecasts
import formats
import harness
import messages
import streams
import tenants
import wire

MAX_LEAK_BYTES = 64 << 20
MAX_TRIM_S = 15  # an idle server trims its memory every few seconds
MAX_LEAKED_DESCRIPTORS = 4
MAX_LEAKED_THREADS = 16  # gRPC keeps some
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
STORM_CLIENTS = 500
STORM_PAUSE_S = 4
LATENCY_PAUSE_S = 0.1  # between two calls of a client
MAX_P99_RATIO = 1.3


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


def reloads(target):
    """Files of keys, certificates and models are read again, every two seconds."""
    for _ in target.paced(0.5):
        target.server.process.send_signal(signal.SIGHUP)
        target.count("reloads")


def storms(target):
    """Every four seconds, 500 clients of ten addresses come back at once, to both ports, and go again."""
    for _ in target.paced(1 / STORM_PAUSE_S):
        clients = []
        for i in range(STORM_CLIENTS):
            endpoint = (target.server.grpc, target.server.http)[i % 2]
            try:
                clients.append(wire.Connection(endpoint, PEERS[i // 2 % len(PEERS)], timeout_s=5))
                target.count("connected")
            except OSError:
                target.count("refused")
        for client in clients:
            client.close()


def together(target):
    """Slow uploads and readers over both transports, killed clients, dropped connections, storms of reconnects and reloads
    at once. The spool has a megabyte and is soon full, and so is the disk of the audit log (/dev/full)."""
    acts = (cancels, drops, storms, reloads, formats.every_format, bodies.slow_uploads, bodies.slow_readers, streams.slow_grpc_uploads,
            streams.slow_grpc_readers, connections.silent_connections)
    attackers = [harness.Attacker(act, target.server, target.left_s()) for act in acts]
    for act, attacker in zip(acts, attackers):
        counts, complaints = attacker.wait()
        target.counts |= {f"{act.__name__}: {name}": count for name, count in counts.items()}
        for complaint in complaints:
            target.complain(f"{act.__name__}: {complaint}")
    for attacker in attackers:
        attacker.stop()


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


def settle(server, before):
    """Waits until the counters are back; complains of what is not."""
    deadline = time.monotonic() + harness.SETTLE_S
    while True:
        left = harness.gauges_left(server)
        if server.descriptors() > before["descriptors"] + MAX_LEAKED_DESCRIPTORS:
            left.append(f"{server.descriptors()} descriptors, they were {before['descriptors']}")
        if server.status("Threads") > before["threads"] + MAX_LEAKED_THREADS:
            left.append(f"{server.status('Threads')} threads, they were {before['threads']}")
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.2)


def kept_bytes(server, before):
    """Resident memory above `before` once the idle server has given back what it keeps between calls."""
    deadline = time.monotonic() + MAX_TRIM_S
    while (grown := server.status("VmRSS") - before) > MAX_LEAK_BYTES and time.monotonic() < deadline:
        time.sleep(0.2)
    return grown


def load(part, server, seconds):
    attacker = harness.Attacker(part, server, seconds, 0 if part in BY_HAND else harness.ATTACKER_NICE)
    try:
        return attacker.wait()
    finally:
        attacker.stop()


def run(part, binary, seconds):
    """One part against a server of its own. Returns counts and complaints."""
    flags = [f"--memory-budget={MEMORY_BUDGET}", f"--max-concurrent-requests={400 if part is tenants.deadlines else 100}"]
    folder = tempfile.TemporaryDirectory()
    keys = {}
    if part.__name__ in tenants.TENANTS:
        keys = tenants.write_keys(binary, folder.name, tenants.TENANTS[part.__name__])
        flags.append(f"--auth-keys={folder.name}/keys.json")
    if part is tenants.deadlines:
        flags.append(f"--audit-log={folder.name}/audit")
    if part is together:
        flags += ["--spool-bytes=1MiB", "--audit-log=/dev/full"]
    server = harness.Server(binary, flags, tls=part is rotation)
    server.keys = keys
    victim = harness.Victim(harness.GrpcCall(server, key=keys.get("modest")))
    try:
        # Memory that is kept for good is there after it; with large images that takes a while.
        load(part, server, seconds if part is tenants.deadlines else min(5, seconds / 3))
        usual_s = max(victim.take()[0])
        settle(server, {"descriptors": 0, "threads": 0})
        before = server.metrics() | {"descriptors": server.descriptors(), "threads": server.status("Threads")}
        resident = server.status("VmRSS")
        counts, complaints = load(part, server, seconds)
        taken, error = victim.take()
        victim.stop()
        if part not in (share, latency, tenants.quota, tenants.retries) and max(taken) > usual_s + harness.MAX_DELAY_S or error:
            complaints.append(f"the victim's longest call took {max(taken):.2f} s: {error or 'no error'}")
        complaints += settle(server, before)
        grown = kept_bytes(server, resident)
        counts |= {"victim's calls": len(taken), "resident growth KiB": grown >> 10}
        if grown > MAX_LEAK_BYTES:
            complaints.append(f"resident memory grew by {grown >> 20} MiB")
        exit_s, code = server.terminate()
        if code != 0:
            complaints.append(f"exit code {code} after {exit_s:.1f} s")
        if part is tenants.deadlines:
            print(forecasts.report(f"{folder.name}/audit"))
            complaints += forecasts.complaints(f"{folder.name}/audit")
    finally:
        victim.stop()
        server.close()
        folder.cleanup()
    return counts, complaints


BY_HAND = (latency, tenants.quota, tenants.background, tenants.retries, tenants.deadlines)
PARTS = (cancels, drops, rotation, share, formats.every_format, together) + BY_HAND


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
