#!/usr/bin/python3
"""Jobs whose workers are killed at random: killed_workers.py UPSCALED UPSCALE WORKER [JOBS [sqlite|redis|nats]]. Each image
is submitted twice. In the end each job has its result, the right one, and each image one file in the results' folder. With
redis, one that syncs what it writes, and nats the broker is killed as well; exits with 77 where there is none."""
import collections
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "attack"))
import harness
import messages

SKIPPED = 77
WORKERS, COPIES = 3, 2
LEASE_S = 1
KILL_EVERY_S = (0.1, 0.6)
BROKER_SHARE = 0.1  # of the kills
PATIENCE_S = 600
SIDES_PX = range(16, 40)


def spawn(command, **options):
    return subprocess.Popen(command, preexec_fn=harness.die_with_parent, **options)


class Disk:
    def __init__(self, folder):
        self.queue = str(folder / "queue")

    def kill(self):
        return False


class Broker:
    """One of `scheme` whose `command` takes a port last, and which says `answer` to `question` when it is ready."""

    def __init__(self, folder, scheme, command, question, answer):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.queue = f"{scheme}://127.0.0.1:{self.port}"
        self.folder = folder
        self.command, self.question, self.answer = command, question, answer
        self.start()

    def start(self):
        self.process = spawn([*self.command, str(self.port)], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while self.answer not in self.ask():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.command[0]} does not answer")
            time.sleep(0.02)

    def ask(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
                connection.sendall(self.question)
                return connection.recv(100)
        except OSError:
            return b""

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.start()
        return True


def redis(folder):
    command = ["redis-server", "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes", "--appendfsync", "always", "--port"]
    return Broker(folder, "redis", command, b"PING\r\n", b"PONG")


def nats(folder):
    return Broker(folder, "nats", ["nats-server", "-a", "127.0.0.1", "-js", "-sd", folder / "jetstream", "-p"], b"", b"INFO")


QUEUES = {"sqlite": Disk, "redis": redis, "nats": nats}


class Run:
    def __init__(self, binaries, jobs, broker):
        self.upscaled, self.upscale, self.worker = binaries
        self.images = jobs // COPIES
        self.server = harness.Server(self.upscaled)
        self.address = "{}:{}".format(*self.server.grpc)
        self.folder = pathlib.Path(self.server.folder.name)
        self.broker = QUEUES[broker](self.folder)
        self.kills = collections.Counter()

    def command(self, *arguments):
        return subprocess.run([self.upscale, *arguments], check=True, capture_output=True, text=True).stdout

    def submit(self):
        (self.folder / "in").mkdir()
        for i in range(self.images):
            (self.folder / f"in/{i}.png").write_bytes(messages.png(random.choice(SIDES_PX), random.choice(SIDES_PX)))
        for copy in range(COPIES):
            self.command("submit", "-i", self.folder / "in", "-o", self.folder / f"out{copy}/", "--queue", self.broker.queue)

    def states(self):
        """How many jobs are in each state; empty while the broker is away."""
        listed = subprocess.run([self.upscale, "jobs", "-n", "1", "--queue", self.broker.queue], capture_output=True, text=True)
        lines = listed.stdout.splitlines()
        return {state: int(count) for count, state in re.findall(r"(\d+) (\w+)", lines[-1])} if lines else {}

    def start_worker(self):
        return spawn([self.worker, "--queue", self.broker.queue, "--results", self.folder / "results", "--server", self.address,
                      "--lease", str(LEASE_S), "--max-deliveries", "1000", "--retries", "0", "--quiet"])

    def work(self):
        workers = [self.start_worker() for _ in range(WORKERS)]
        deadline = time.monotonic() + PATIENCE_S
        next_kill = time.monotonic()
        states = self.states()
        while set(states) & {"waiting", "running"} or not states:
            if time.monotonic() > deadline:
                raise RuntimeError(f"not done after {PATIENCE_S} s: {states}")
            if time.monotonic() > next_kill:
                self.kill_one(workers)
                next_kill = time.monotonic() + random.uniform(*KILL_EVERY_S)
                states = self.states()
            time.sleep(0.02)
        for worker in workers:
            worker.terminate()
            worker.wait()
        return states

    def kill_one(self, workers):
        if random.random() < BROKER_SHARE and self.broker.kill():
            self.kills["broker"] += 1
            return
        index = random.randrange(WORKERS)
        kind = random.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM))
        workers[index].send_signal(kind)
        workers[index].wait()
        self.kills[kind.name] += 1
        workers[index] = self.start_worker()

    def check(self, states):
        """The complaints."""
        jobs = self.images * COPIES
        wrong = [] if states == {"done": jobs} else [f"of {jobs} jobs: {states}"]
        self.command("image", "-i", self.folder / "in", "-o", self.folder / "right/", "--server", self.address, "-j", "4")
        for i in range(self.images):
            right = (self.folder / f"right/{i}.png").read_bytes()
            for copy in range(COPIES):
                result = self.folder / f"out{copy}/{i}.png"
                if not result.exists() or result.read_bytes() != right:
                    wrong.append(f"{result} is missing or wrong")
        results = list((self.folder / "results").glob("*.png"))
        if len(results) != self.images:
            wrong.append(f"{len(results)} results of {self.images} images")
        return wrong

    def computed(self):
        return sum(value for name, value in self.server.metrics().items() if re.match(r'upscaled_results_total.*"computed"', name))


def main(upscaled, upscale, worker, jobs="40", broker="sqlite"):
    if broker != "sqlite" and not shutil.which(f"{broker}-server"):
        return SKIPPED
    seed = int.from_bytes(os.urandom(4), "little")
    random.seed(seed)
    run = Run((upscaled, upscale, worker), int(jobs), broker)
    try:
        run.submit()
        start = time.monotonic()
        states = run.work()
        elapsed = time.monotonic() - start
        computed = run.computed()
        wrong = run.check(states)
    finally:
        run.server.close()
    print(f"seed {seed}: {jobs} jobs of {run.images} images in {elapsed:.1f} s, {computed:.0f} computed, killed: {dict(run.kills)}")
    for complaint in wrong:
        print(complaint)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
