#!/usr/bin/python3
"""Three replicas behind nginx, as real processes, under clients that never stop, while replicas are restarted one after the
other, killed and frozen: run.py UPSCALED UPSCALE [--seconds N] [--clients N]. Every image must arrive with its bytes, and none
be billed twice but for a try of its own. Prints a table; exits with 1 otherwise, with 77 where there is no nginx of 1.19.5 or
later.

Replicas keep their ports over restarts, as addresses behind a proxy do."""
import argparse
import contextlib
import pathlib
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "deploy"))
import proxies
import harness
import messages

SKIPPED = 77
REPLICAS = 3
MODEL = "fast-2x"
SIZES_PX = ((96, 64), (300, 200), (700, 500))
DRAIN_TIMEOUT_S = 20
PATIENCE_S = 60  # of a client, tries and waits included
SERVED = re.compile(r'^upscaled_requests_total\{code="OK",method="UpscaleImage",.*\} (\d+)$', re.M)


class Replica:
    """A server that can go and come back at its ports. `served`: calls that /metrics had as of each end; `kills`: of its
    ends, those without warning."""

    def __init__(self, upscaled, folder):
        self.upscaled, self.folder = upscaled, folder
        self.served = self.kills = 0
        self.grpc, self.http, self.admin = (("127.0.0.1", proxies.free_port()) for _ in range(3))
        self.start()

    @property
    def usage_file(self):
        return f"{self.folder.name}/{self.grpc[1]}.db"

    def start(self):
        ports = zip(("listen", "http", "admin"), (self.grpc, self.http, self.admin))
        flags = [f"--{name}={host}:{port}" for name, (host, port) in ports]
        flags += ["--device=cpu", "--threads=1", f"--drain-timeout={DRAIN_TIMEOUT_S}s", "--max-connections-per-address=4096",
                  "--max-requests-per-address=100", "--max-concurrent-requests=100", "--log-level=warning",
                  f"--usage-db={self.usage_file}"]
        with open(f"{self.folder.name}/{self.grpc[1]}.log", "ab") as log:
            self.process = subprocess.Popen([self.upscaled, *flags], stderr=log, preexec_fn=harness.die_with_parent)

    def await_ready(self, upscale):
        endpoint = "{}:{}".format(*self.grpc)
        deadline = time.monotonic() + proxies.PATIENCE_S
        while subprocess.run([upscale, "health", f"--server={endpoint}"], capture_output=True).returncode != 0:
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError(f"replica {endpoint} does not become ready")
            time.sleep(0.1)

    def ask(self, path):
        with urllib.request.urlopen("http://{}:{}".format(*self.admin) + path, timeout=proxies.PATIENCE_S) as answer:
            return answer.read().decode()

    def end(self, by):
        """The exit code."""
        self.served += sum(map(int, SERVED.findall(self.ask("/metrics"))))
        if by == signal.SIGKILL:
            self.ask("/v1/usage")  # writes what waited
            self.kills += 1
        self.process.send_signal(by)
        return self.process.wait(DRAIN_TIMEOUT_S + proxies.PATIENCE_S)

    @property
    def charged(self):
        """Calls in the file of usage but for refusals, once the server has gone."""
        with contextlib.closing(sqlite3.connect(self.usage_file)) as file:
            return file.execute("SELECT COALESCE(SUM(calls - refusals), 0) FROM usage_1").fetchone()[0]

    def close(self):
        self.process.kill()
        self.process.wait()


class Client(threading.Thread):
    """Upscales the images in turn until told to stop, each by a command of its own."""

    def __init__(self, number, cluster):
        super().__init__()
        self.number, self.cluster = number, cluster
        self.times_s, self.failures, self.retries = [], [], 0

    def run(self):
        turn = self.number
        while not self.cluster.over.is_set():
            name = self.cluster.sources[turn % len(self.cluster.sources)]
            turn += 1
            begin = time.monotonic()
            complaint, retries = self.cluster.upscale(name, f"{self.number}-{name}")
            self.times_s.append(time.monotonic() - begin)
            self.retries += retries
            if complaint:
                self.failures.append(complaint)


class Cluster:
    """Replicas, nginx, images and what they must become."""

    def __init__(self, upscaled, upscale, folder, freeze_s):
        self.upscale_command, self.folder = upscale, pathlib.Path(folder.name)
        self.over = threading.Event()
        self.freeze_s = freeze_s
        self.cleanups = []
        self.replicas = [Replica(upscaled, folder) for _ in range(REPLICAS)]
        for replica in self.replicas:
            self.cleanups.append(replica.close)
            replica.await_ready(upscale)
        self.port = proxies.start_nginx(self, *self.replicas, log=f"{folder.name}/nginx.log")
        self.sources = [f"{width}x{height}.png" for width, height in SIZES_PX]
        for name, size in zip(self.sources, SIZES_PX):
            (self.folder / name).write_bytes(messages.png(*size))
            complaint, _ = self.call(name, self.folder / f"whole-{name}", ["--server={}:{}".format(*self.replicas[0].grpc)])
            if complaint:
                raise RuntimeError(complaint)

    def addClassCleanup(self, act, *arguments):  # what start_nginx takes a test case for
        self.cleanups.append(lambda: act(*arguments))

    def close(self):
        for cleanup in reversed(self.cleanups):
            cleanup()

    def call(self, name, result, connection):
        """The complaint of one command, none: "", and how often it tried again."""
        command = [self.upscale_command, "image", "-i", self.folder / name, "-o", result, f"--model={MODEL}", "--verbose",
                   "--retries=20", f"--timeout={PATIENCE_S}", *connection]
        done = subprocess.run(command, capture_output=True, text=True, preexec_fn=harness.die_with_parent)
        complaint = "" if done.returncode == 0 else f"{name}: exit code {done.returncode}: {done.stderr.strip()}"
        return complaint, done.stderr.count("trying again")

    def upscale(self, name, result):
        tls = ["--tls", f"--tls-ca={self.folder}/tls.pem", "--tls-server-name=attack", f"--server=127.0.0.1:{self.port}"]
        complaint, retries = self.call(name, self.folder / result, tls)
        if not complaint and (self.folder / result).read_bytes() != (self.folder / f"whole-{name}").read_bytes():
            complaint = f"{name}: other bytes"
        return complaint, retries


def roll(cluster):
    """A rolling restart."""
    complaints = []
    for replica in cluster.replicas:
        code = replica.end(signal.SIGTERM)
        if code != 0:
            complaints.append(f"a replica ended with {code} after SIGTERM")
        replica.start()
        replica.await_ready(cluster.upscale_command)
    return complaints


def kill(cluster):
    """kill -9 of one, and a new one in its place."""
    replica = cluster.replicas[0]
    replica.end(signal.SIGKILL)
    replica.start()
    replica.await_ready(cluster.upscale_command)
    return []


def freeze(cluster):
    """One that does not move for a while, and kill -9 of another midway."""
    process = cluster.replicas[1].process
    process.send_signal(signal.SIGSTOP)
    time.sleep(cluster.freeze_s / 2)
    kill(cluster)
    time.sleep(cluster.freeze_s / 2)
    process.send_signal(signal.SIGCONT)
    return []


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else 0.0


def check_bill(cluster, clients):
    """Ends the replicas, and complains unless each image was billed once, and at most once more for each try that failed. What
    the last moment before a kill brought is lost: a call of each client at most, as the next one is a new process."""
    codes = [replica.end(signal.SIGTERM) for replica in cluster.replicas]
    complaints = [f"a replica ended with {code} after SIGTERM" for code in codes if code != 0]
    served, charged, kills = (sum(getattr(x, name) for x in cluster.replicas) for name in ("served", "charged", "kills"))
    images = sum(len(client.times_s) for client in clients) + len(cluster.sources)  # those that one replica made at first
    tries = images + sum(client.retries for client in clients)
    print(f"{images} images in {tries} tries; billed {charged} calls in files of usage, of which {kills} kills may lack some, and {served} in "
          "/metrics as of each end")
    # The question that has usage written before a kill is a call, too, and may be written itself.
    if not images - kills * len(clients) <= charged <= tries + kills or served > tries:
        complaints.append("not billed once each")
    return complaints


def run(cluster, clients, seconds):
    threads = [Client(number, cluster) for number in range(clients)]
    for thread in threads:
        thread.start()
    complaints, events, end = [], [], time.monotonic() + seconds
    while not events or time.monotonic() < end:
        for event in (roll, kill, freeze):
            begin = time.monotonic()
            complaints += event(cluster)
            events.append((event.__doc__, time.monotonic() - begin))
    cluster.over.set()
    for thread in threads:
        thread.join()
        complaints += thread.failures
    times_s = [one for thread in threads for one in thread.times_s]
    for name, took_s in events:
        print(f"{took_s:7.1f} s  {name}")
    complaints += check_bill(cluster, threads)
    print(f"{len(times_s)} images by {clients} clients; p50 {percentile(times_s, 0.5):.2f} s, p99 {percentile(times_s, 0.99):.2f} s, "
          f"longest {max(times_s):.2f} s; {len(complaints)} lost or wrong")
    return complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("upscaled")
    parser.add_argument("upscale")
    parser.add_argument("--seconds", type=float, default=180, help="of disturbances; each kind happens once at least")
    parser.add_argument("--freeze", type=float, default=30, help="seconds that one does not move")
    parser.add_argument("--clients", type=int, default=16)
    arguments = parser.parse_args()
    if proxies.NGINX is None:
        print(f"SKIPPED: {proxies.WHY_NO_NGINX}")
        return SKIPPED
    folder = tempfile.TemporaryDirectory()
    with folder:
        cluster = Cluster(arguments.upscaled, arguments.upscale, folder, arguments.freeze)
        try:
            complaints = run(cluster, arguments.clients, arguments.seconds)
        finally:
            cluster.close()
    for complaint in complaints[:20]:
        print(complaint)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
