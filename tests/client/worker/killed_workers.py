#!/usr/bin/python3
"""Jobs whose workers are killed at random: killed_workers.py UPSCALED UPSCALE WORKER [JOBS [sqlite|redis|nats|s3 [WORK]]].
Each image is submitted twice. In the end each job has its result, the right one, and each image one file in the results'
folder. With redis, one that syncs what it writes, and nats the broker is killed as well. With s3 the queue is sqlite's, and
results are objects of npm's s3rver, which is installed in the folder WORK, and killed as well. Exits with 77, and says why,
where something that it needs is missing."""
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
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "attack"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
import harness
import messages
import npm

SKIPPED = 77
WORKERS, COPIES = 3, 2
LEASE_S = 1
KILL_EVERY_S = (0.1, 0.6)
BROKER_SHARE = 0.1  # of the kills
PATIENCE_S = 600
SIDES_PX = range(16, 40)


def spawn(command, **options):
    return subprocess.Popen(command, preexec_fn=harness.die_with_parent, **options)


class Folder:
    def __init__(self, path):
        self.address = str(path)
        self.flags, self.environment = [], {}

    def images(self):
        return [path.name for path in pathlib.Path(self.address).glob("*.png")]

    def kill(self):
        return False


class Server:
    """One of `scheme` whose `command` takes a port last, and which says `answer` to `question` when it is ready."""

    def __init__(self, folder, scheme, command, question, answer):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.address = f"{scheme}://127.0.0.1:{self.port}"
        self.folder = folder
        self.command, self.question, self.answer = command, question, answer
        self.start()

    def start(self):
        self.process = spawn([*self.command, str(self.port)], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
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
    return Server(folder, "redis", command, b"PING\r\n", b"PONG")


def nats(folder):
    return Server(folder, "nats", ["nats-server", "-a", "127.0.0.1", "-js", "-sd", folder / "jetstream", "-p"], b"", b"INFO")


class Bucket(Server):
    """A server of npm's s3rver, which was installed in `installed`."""

    def __init__(self, folder, installed):
        command = ["node", installed / "server.js", folder / "s3"]
        super().__init__(folder, "http", command, b"HEAD / HTTP/1.0\r\n\r\n", b"HTTP/1.1")
        self.endpoint, self.address = self.address, "s3://jobs/results"
        self.flags = ["--s3-endpoint", self.endpoint]
        self.environment = {"AWS_ACCESS_KEY_ID": "S3RVER", "AWS_SECRET_ACCESS_KEY": "S3RVER"}

    def images(self):
        names, last = [], ""
        while True:
            with urllib.request.urlopen(f"{self.endpoint}/jobs?list-type=2&prefix=results/&start-after={last}", timeout=60) as answer:
                page = answer.read().decode()
            keys = re.findall("<Key>(.*?)</Key>", page)
            names += [key for key in keys if key.endswith(".png")]
            if "<IsTruncated>true" not in page:
                return names
            last = keys[-1]


QUEUES = {"sqlite": lambda folder: Folder(folder / "queue"), "redis": redis, "nats": nats}


class Run:
    def __init__(self, binaries, jobs, kind, installed):
        self.upscaled, self.upscale, self.worker = binaries
        self.images = jobs // COPIES
        self.server = harness.Server(self.upscaled)
        self.address = "{}:{}".format(*self.server.grpc)
        self.folder = pathlib.Path(self.server.folder.name)
        self.queue = QUEUES.get(kind, QUEUES["sqlite"])(self.folder)
        self.results = Bucket(self.folder, installed) if kind == "s3" else Folder(self.folder / "results")
        self.kills = collections.Counter()

    def command(self, *arguments):
        return subprocess.run([self.upscale, *arguments], check=True, capture_output=True, text=True).stdout

    def submit(self):
        (self.folder / "in").mkdir()
        for i in range(self.images):
            (self.folder / f"in/{i}.png").write_bytes(messages.png(random.choice(SIDES_PX), random.choice(SIDES_PX)))
        for copy in range(COPIES):
            self.command("submit", "-i", self.folder / "in", "-o", self.folder / f"out{copy}/", "--queue", self.queue.address)

    def states(self):
        """How many jobs are in each state; empty while the broker is away."""
        listed = subprocess.run([self.upscale, "jobs", "-n", "1", "--queue", self.queue.address], capture_output=True, text=True)
        lines = listed.stdout.splitlines()
        return {state: int(count) for count, state in re.findall(r"(\d+) (\w+)", lines[-1])} if lines else {}

    def start_worker(self):
        return spawn([self.worker, "--queue", self.queue.address, "--results", self.results.address, *self.results.flags,
                      "--server", self.address, "--lease", str(LEASE_S), "--max-deliveries", "1000", "--retries", "0",
                      "--allow-paths", self.folder, "--quiet"], env=os.environ | self.results.environment)

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
        if random.random() < BROKER_SHARE:
            for kind, place in (("broker", self.queue), ("store", self.results)):
                if place.kill():
                    self.kills[kind] += 1
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
        results = self.results.images()
        if len(results) != self.images:
            wrong.append(f"{len(results)} results of {self.images} images")
        return wrong

    def computed(self):
        return sum(value for name, value in self.server.metrics().items() if re.match(r'upscaled_results_total.*"computed"', name))


def why_not(kind, worker, work):
    """The name of what is missing for it, or nothing."""
    if kind == "s3":
        refused = subprocess.run([worker, "--queue", work / "none", "--results", "s3://"], capture_output=True, text=True).stderr
        if "needs libcurl" in refused:
            return refused.strip()
        return npm.install(pathlib.Path(__file__).resolve().parent / "s3", work)
    if kind != "sqlite" and not shutil.which(f"{kind}-server"):
        return f"no {kind}-server"
    return ""


def main(upscaled, upscale, worker, jobs="40", kind="sqlite", work="s3"):
    work = pathlib.Path(work).resolve()
    if missing := why_not(kind, worker, work):
        print("SKIPPED:", missing)
        return SKIPPED
    seed = int.from_bytes(os.urandom(4), "little")
    random.seed(seed)
    run = Run((upscaled, upscale, worker), int(jobs), kind, work)
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
