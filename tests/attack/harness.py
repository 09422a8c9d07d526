"""A server under attack, the victim beside it, the attacker, and what must hold."""
import ctypes
import dataclasses
import functools
import http.client
import multiprocessing
import os
import pathlib
import re
import resource
import signal
import ssl
import subprocess
import tempfile
import time
import urllib.request

import messages
import wire

DRAIN_TIMEOUT_S = 1
MEMORY_BUDGET = "512MiB"
START_TIMEOUT_S = 20
EXIT_SLACK_S = 5  # after the drain timeout
MAX_GROWTH_BYTES = 300 << 20
MAX_LOG_BYTES = 4 << 20
MAX_DELAY_S = 1.0  # of the victim's longest call, above its usual one
MAX_THREADS = 150  # 100 request workers and the others
GIVE_UP_S = 20.0  # the victim does so, on one call
WARM_UP_S, USUAL_S, AFTERMATH_S = 0.4, 0.8, 0.4
SETTLE_S = 15  # longer than threads stay idle
GAUGES = ("upscaled_requests_in_flight", "upscaled_queue_tiles", "upscaled_queue_pixels", "upscaled_memory_reserved_bytes")

VICTIM = "127.0.0.2"  # its address; attackers come from 127.0.0.1
VICTIM_PAUSE_S = 0.02
ATTACKER_NICE = 10
CALLS_A_CONNECTION = 10

processes = multiprocessing.get_context("fork")  # nothing here starts threads


def die_with_parent():
    """Has this process killed when its parent ends, however that ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


@functools.cache
def supported_flags(binary):
    text = subprocess.run([binary, "--help"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"--[a-z0-9-]+", text))


def make_certificate(folder, name="server"):
    """NAME.pem and NAME.key in `folder`."""
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=attack"]
    files = ["-keyout", f"{folder}/{name}.key", "-out", f"{folder}/{name}.pem"]
    subprocess.run(command + files, check=True, capture_output=True)


def client_tls():
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context


class Server:
    """The built server on loopback, any ports. `descriptors` caps its RLIMIT_NOFILE; with `unread`, nobody
    reads its stderr after the start."""

    def __init__(self, binary, flags=(), descriptors=None, unread=False, tls=False):
        self.folder = tempfile.TemporaryDirectory()
        ports = {"listen", "http", "admin"}
        command = [binary, "--device=cpu"]
        command += [f"--{port}=127.0.0.1:0" for port in ports if f"--{port}" in supported_flags(binary)]
        command += [f"--drain-timeout={DRAIN_TIMEOUT_S}s", *(flags or [f"--memory-budget={MEMORY_BUDGET}"])]
        self.tls = None
        if tls:
            make_certificate(self.folder.name)
            command += [f"--tls-cert={self.folder.name}/server.pem", f"--tls-key={self.folder.name}/server.key"]
            self.tls = client_tls()

        def prepare():
            die_with_parent()
            if descriptors is not None:
                resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

        self.log = pathlib.Path(self.folder.name) / "log"
        stderr = subprocess.PIPE if unread else self.log.open("wb")
        self.process = subprocess.Popen(command, stderr=stderr, preexec_fn=prepare)
        text = self._read_start(unread)
        endpoints = dict(re.findall(r"\b(grpc|http|admin)=(\S+:\d+)", text))
        host_port = {name: endpoint.rsplit(":", 1) for name, endpoint in endpoints.items()}
        self.endpoints = {name: (host, int(port)) for name, (host, port) in host_port.items()}

    def _read_start(self, unread):
        text = ""
        deadline = time.monotonic() + START_TIMEOUT_S
        while " ready " not in text:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server did not start: {text}")
            if unread:
                text += self.process.stderr.readline().decode()
            else:
                time.sleep(0.02)
                text = self.log.read_text()
        return text

    @property
    def grpc(self):
        return self.endpoints["grpc"]

    @property
    def http(self):
        return self.endpoints["http"]

    @property
    def admin(self):
        """The operators' port, or None where there is none of its own."""
        return self.endpoints.get("admin")

    def status(self, name):
        """A number of /proc/PID/status: VmRSS and VmHWM in bytes, Threads."""
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        value, *unit = re.search(rf"^{name}:\s+(.*)$", text, re.MULTILINE)[1].split()
        return int(value) << (10 if unit else 0)

    def forget_peak(self):
        pathlib.Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def cpu_s(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def metrics(self):
        """Samples of /metrics by name and labels."""
        host, port = self.admin or self.http
        with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return {name: float(value) for name, value in (x.rsplit(" ", 1) for x in lines if not x.startswith("#"))}

    def terminate(self):
        """SIGTERM. Returns the seconds until the exit and the exit code, or None for one that had to be killed."""
        start = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(DRAIN_TIMEOUT_S + EXIT_SLACK_S + 1)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            code = None
        return time.monotonic() - start, code

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.process.stderr:
            self.process.stderr.close()
        self.folder.cleanup()


def gauges_left(server):
    """The gauges of a server without calls that are not zero."""
    now = server.metrics()
    return [f"{name} is {now[name]:.0f}" for name in GAUGES if now[name] != 0]


def nothing_left(server):
    """Waits until no call holds anything; complains of what is left."""
    deadline = time.monotonic() + SETTLE_S
    while (left := gauges_left(server)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


class ImageCall:
    """Upscales a small image; every tenth call on a new connection."""

    def __init__(self, server, source=VICTIM, key=None, side_px=128):
        self.server, self.source = server, source
        self.extra = (("x-api-key", key),) if key else ()
        self.image = messages.png(side_px, side_px)
        self.connection = None
        self.calls = 0

    def __call__(self, timeout_s):
        self.calls += 1
        if self.connection is None or self.calls % CALLS_A_CONNECTION == 0:
            self.drop()
            self.connection = self.connect(timeout_s)
        self.upscale(timeout_s)

    def drop(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None


class GrpcCall(ImageCall):
    """Over gRPC."""

    def connect(self, timeout_s):
        return wire.Connection(self.server.grpc, self.source, timeout_s, tls=self.server.tls)

    def upscale(self, timeout_s):
        answer = self.connection.call(wire.UNARY, messages.unary(self.image), timeout_s=timeout_s, extra=self.extra)
        if answer.status != 0:
            raise OSError(f"status {answer.status}: {answer.headers.get('grpc-message', '')}")


class HttpCall:
    """Asks whether the server is ready."""

    def __init__(self, server):
        self.url = "http://{}:{}/v2/health/ready".format(*server.http)

    def __call__(self, timeout_s):
        urllib.request.urlopen(self.url, timeout=timeout_s).read()

    def drop(self):
        pass


class HttpImageCall(ImageCall):
    """Over HTTP/1.1."""

    def connect(self, timeout_s):
        return http.client.HTTPConnection(*self.server.http, timeout_s, source_address=(self.source, 0))

    def upscale(self, timeout_s):
        try:
            self.connection.request("POST", "/v1/upscale", self.image, dict(self.extra))
            answer = self.connection.getresponse()
            body = answer.read()
        except http.client.HTTPException as broken:
            raise OSError(repr(broken)) from broken
        if answer.status != 200:
            raise OSError(f"status {answer.status}: {body[:200].decode()}")


class Victim:
    """A well-behaved client in a process of its own. A call that fails is tried again, as clients do, and its
    time runs on."""

    def __init__(self, call, pause_s=VICTIM_PAUSE_S, nice=0):
        self._pipe, theirs = processes.Pipe()
        self._process = processes.Process(target=self._run, args=(call, pause_s, nice, theirs))
        self._process.start()

    def take(self):
        """Seconds of each call since the last take, the one under way included, and the last error."""
        self._pipe.send("take")
        return self._pipe.recv()

    def stop(self):
        self._process.kill()
        self._process.join()

    @staticmethod
    def _run(call, pause_s, nice, pipe):
        die_with_parent()
        os.nice(nice)
        taken, error = [], ""
        while True:
            start = time.monotonic()
            while time.monotonic() < start + GIVE_UP_S:
                try:
                    call(GIVE_UP_S / 2)
                    break
                except OSError as failure:
                    error = str(failure)
                    call.drop()
                    time.sleep(0.05)
            taken.append(time.monotonic() - start)
            if pipe.poll(pause_s):
                pipe.recv()
                pipe.send((taken, error))
                taken, error = [], ""


class Target:
    """The tools of an attack: the server, its time, and helpers to use it up."""

    def __init__(self, server, seconds):
        self.server = server
        self.seconds = seconds
        self.kept = []  # what stays open until the server has gone
        self.counts = {}  # what was done, human-readable
        self.complaints = []
        self._end = None

    def left_s(self):
        """The rest of its time, which begins with the first question: preparations do not count."""
        if self._end is None:
            self._end = time.monotonic() + self.seconds
        return self._end - time.monotonic()

    def count(self, name, number=1):
        self.counts[name] = self.counts.get(name, 0) + number

    def complain(self, complaint):
        if complaint not in self.complaints:
            self.complaints.append(complaint)

    def connect(self, endpoint=None, **options):
        connection = wire.Connection(endpoint or self.server.grpc, tls=self.server.tls, **options)
        self.kept.append(connection)
        return connection

    def paced(self, per_second, batch=1):
        """Yields, `batch` a time, at this rate until the time is up; what was missed is not caught up on."""
        due = time.monotonic()
        while self.left_s() > 0:
            time.sleep(max(0.0, due - time.monotonic()))
            yield
            due = max(due + batch / per_second, time.monotonic())

    def persist(self, act, endpoint=None, **options):
        """Does `act` on a connection, and again on a new one whenever the server ends it."""
        while self.left_s() > 0:
            try:
                act(self.connect(endpoint, **options))
            except OSError:
                self.count("connections ended")
                time.sleep(0.01)


@dataclasses.dataclass
class Attack:
    """`act` is given a Target. `check`, given the server while the attacker still holds what it has, returns
    complaints."""

    act: callable
    check: callable = lambda server: []
    victim: callable = GrpcCall
    server: dict = dataclasses.field(default_factory=dict)  # arguments of Server
    seconds: float = 2

    @property
    def name(self):
        return self.act.__name__


@dataclasses.dataclass
class Outcome:
    """The effect of one attack on the server."""

    name: str
    usual_s: float = 0.0
    longest_s: float = 0.0
    growth_bytes: int = 0
    threads: int = 0
    log_bytes: int = 0
    exit_s: float = 0.0
    exit_code: int | None = 0
    counts: dict = dataclasses.field(default_factory=dict)
    complaints: list = dataclasses.field(default_factory=list)

    def judge(self, last_error):
        def require(holds, complaint):
            if not holds:
                self.complaints.append(complaint)

        late = f"the victim's longest call took {self.longest_s:.2f} s, its usual ones {self.usual_s:.2f} s at most"
        require(self.longest_s <= self.usual_s + MAX_DELAY_S, f"{late} ({last_error or 'no error'})")
        grown = f"resident memory grew by {self.growth_bytes >> 20} MiB, the limit is {MAX_GROWTH_BYTES >> 20}"
        require(self.growth_bytes <= MAX_GROWTH_BYTES, grown)
        require(self.threads <= MAX_THREADS, f"{self.threads} threads, the limit is {MAX_THREADS}")
        logged = f"{self.log_bytes >> 10} KiB of log, the limit is {MAX_LOG_BYTES >> 10}"
        require(self.log_bytes <= MAX_LOG_BYTES, logged)
        limit_s = DRAIN_TIMEOUT_S + EXIT_SLACK_S
        ends = f"exit code {self.exit_code} {self.exit_s:.1f} s after SIGTERM; the limit is {limit_s} s"
        require(self.exit_s <= limit_s and self.exit_code is not None and self.exit_code >= 0, ends)


def _act(act, server, seconds, nice, pipe):
    die_with_parent()
    os.nice(nice)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    target = Target(server, seconds)
    try:
        act(target)
    except OSError as error:
        target.count(f"ended by {error}")
    pipe.send((target.counts, target.complaints))
    signal.pause()  # and holds what it has


class Attacker:
    """Does `act` to the server in a process of its own, and then keeps what it holds until stopped."""

    def __init__(self, act, server, seconds, nice=ATTACKER_NICE):
        self._give_up_s = 3 * seconds + 30
        self._pipe, theirs = processes.Pipe()
        self._process = processes.Process(target=_act, args=(act, server, seconds, nice, theirs))
        self._process.start()
        theirs.close()

    def wait(self):
        """The counts of what was done, and the faults that were found."""
        if not self._pipe.poll(self._give_up_s):
            return {}, ["the attack did not end"]
        try:
            return self._pipe.recv()
        except EOFError:
            return {}, ["the attack itself failed"]

    def stop(self):
        self._process.kill()
        self._process.join()


def run(attack, binary, scale=1.0):
    """One attack against a server of its own."""
    outcome = Outcome(attack.name)
    server = Server(binary, **attack.server)
    victim = Victim(attack.victim(server))
    attacker = None
    try:
        time.sleep(WARM_UP_S)
        victim.take()  # the first calls load and compile
        time.sleep(USUAL_S)
        outcome.usual_s = max(victim.take()[0])
        before = server.status("VmRSS")
        server.forget_peak()
        attacker = Attacker(attack.act, server, attack.seconds * scale)
        outcome.counts, outcome.complaints = attacker.wait()
        time.sleep(AFTERMATH_S)
        taken, last_error = victim.take()
        outcome.longest_s = max(taken)
        victim.stop()
        if server.process.poll() is not None:
            outcome.complaints.append(f"the server has ended with {server.process.returncode}")
            return outcome
        outcome.growth_bytes = server.status("VmHWM") - before
        outcome.threads = server.status("Threads")
        outcome.complaints += attack.check(server)
        outcome.log_bytes = server.log.stat().st_size if server.log.exists() else 0
        outcome.exit_s, outcome.exit_code = server.terminate()
        outcome.judge(last_error)
    finally:
        victim.stop()
        if attacker is not None:
            attacker.stop()
        server.close()
    return outcome
