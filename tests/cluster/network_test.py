#!/usr/bin/python3
"""A network that is slow, loses packets or swallows them all, between a server and `upscale`: network_test.py UPSCALED UPSCALE.
Runs in a network namespace of its own, whose loopback gets tc's token bucket and nft's drops. Exits with 77 where there is no
root, unshare, ip, tc or nft, or where the kernel lacks what they ask for."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "attack"))
import harness
import messages

SKIPPED = 77
INSIDE = "NETWORK_TEST_INSIDE"  # set in the namespace
TOOLS = ("unshare", "ip", "tc", "nft")
MTU_BYTES = 1500  # an Ethernet's, not loopback's: packets to lose
PATIENCE_S = 60  # hangs are longer
FLAGS = ["--threads=1", "--stall-timeout=3s"]
SIZE_PX = (240, 160)  # 115 KB of noise, and some 450 KB of result
TRANSPORTS = ("grpc", "http")
CALLS = "upscaled_requests_in_flight"
GAVE_UP, INTERRUPTED = (2, 3), 130  # exit codes of `upscale`: it cannot connect, a call failed; SIGTERM


def run(*command, text=None, check=True):
    return subprocess.run(command, input=text, capture_output=True, text=True, check=check)


def rate(text):
    """Sets the rate of loopback: 8mbit and the like; "": as fast as it is."""
    run("tc", "qdisc", "del", "dev", "lo", "root", check=False)
    if text:
        run("tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate", text, "burst", "32kb", "latency", "400ms")


def drop(ports=(), per_cent=100):
    """Drops a part of what comes to and from the ports; of none: nothing."""
    run("nft", "flush", "ruleset")
    if ports:
        chance = f"numgen random mod 100 < {per_cent} " if per_cent < 100 else ""
        of = "{ " + ", ".join(map(str, ports)) + " }"
        rules = "\n".join(f"tcp {way} {of} {chance}drop" for way in ("dport", "sport"))
        run("nft", "-f", "-", text=f"table inet faults {{\nchain in {{\ntype filter hook input priority 0;\n{rules}\n}}\n}}\n")


class NetworkTest(unittest.TestCase):
    def setUp(self):
        self.server = harness.Server(UPSCALED, flags=FLAGS)
        self.addCleanup(self.server.close)
        self.addCleanup(rate, "")
        self.addCleanup(drop)
        self.ports = [self.server.grpc[1], self.server.http[1]]
        self.folder = pathlib.Path(self.server.folder.name)
        (self.folder / "in.png").write_bytes(messages.png(*SIZE_PX))
        self.whole = self.end(self.start("grpc", "whole.png"), 0).read_bytes()

    def start(self, transport, result, *arguments):
        address = "{}:{}".format(*getattr(self.server, transport))
        server = f"http://{address}" if transport == "http" else address
        command = [UPSCALE, "image", "-i", self.folder / "in.png", "-o", self.folder / result, "--model=fast-2x", f"--server={server}"]
        process = subprocess.Popen([*command, *arguments], stderr=subprocess.PIPE, text=True, preexec_fn=harness.die_with_parent)
        process.result = self.folder / result
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def end(self, process, *codes):
        """The result's path. A command that hangs raises TimeoutExpired."""
        _, told = process.communicate(timeout=PATIENCE_S)
        self.assertIn(process.returncode, codes, told)
        return process.result

    def await_metric(self, name, number):
        """Until it has this value. The server's operators' port is not disturbed but by the rate."""
        deadline = time.monotonic() + PATIENCE_S
        while self.server.metrics()[name] != number:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.2)

    def start_into_a_hole(self, transport, *arguments):
        """A call that no packet of arrives any more, in the midst of its image."""
        rate("1mbit" if transport == "grpc" else "200kbit")  # 5 s for all of it, and more
        process = self.start(transport, f"{transport}.png", *arguments)
        if transport == "grpc":
            self.await_metric(CALLS, 1)
        else:  # an image that comes slowly is no call before it is whole
            time.sleep(1)
        drop(self.ports)
        rate("")
        return process

    def works_again(self, transport):
        self.await_metric(CALLS, 0)
        drop()
        self.assertEqual(self.end(self.start(transport, "again.png"), 0).read_bytes(), self.whole)

    def test_slowness_and_losses_change_no_byte(self):
        for spoil in (lambda: rate("4mbit"), lambda: drop(self.ports, per_cent=5)):
            spoil()
            for transport in TRANSPORTS:
                process = self.start(transport, f"{transport}.png", f"--timeout={PATIENCE_S}")
                self.assertEqual(self.end(process, 0).read_bytes(), self.whole)
            rate("")
            drop()

    def test_deadlines_hold_where_the_network_is_too_slow(self):
        rate("200kbit")  # 5 s for the source alone
        for transport in TRANSPORTS:
            process = self.start(transport, f"{transport}.png", "--timeout=1")
            self.assertFalse(self.end(process, *GAVE_UP).exists())

    def test_deadlines_hold_where_nobody_answers(self):
        drop(self.ports)
        for transport in TRANSPORTS:
            process = self.start(transport, f"{transport}.png", "--timeout=1")
            self.assertFalse(self.end(process, *GAVE_UP).exists())
            self.works_again(transport)
            drop(self.ports)

    def test_a_call_in_a_hole_ends_by_its_deadline_and_the_server_lets_go_of_it(self):
        for transport in TRANSPORTS:
            process = self.start_into_a_hole(transport, "--timeout=3")
            self.assertFalse(self.end(process, *GAVE_UP).exists())
            self.works_again(transport)

    def test_sigterm_ends_a_client_in_a_hole(self):
        for transport in TRANSPORTS:
            process = self.start_into_a_hole(transport)
            process.send_signal(signal.SIGTERM)
            self.end(process, INTERRUPTED)
            self.works_again(transport)

    def test_sigterm_ends_a_server_in_a_hole(self):
        client = self.start_into_a_hole("grpc", "--timeout=3")
        self.assertEqual(self.server.terminate()[1], 0)
        self.end(client, *GAVE_UP)


def why_not():
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"no {', '.join(missing)} here"
    if os.geteuid() != 0:
        return "needs root"
    done = run("unshare", "--net", "true", check=False)
    return done.stderr.strip()


def main():
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    if INSIDE not in os.environ:
        reason = why_not()
        if reason:
            print(f"SKIPPED: {reason}")
            return SKIPPED
        return subprocess.run(["unshare", "--net", sys.executable, *sys.argv], env={**os.environ, INSIDE: "1"}).returncode
    run("ip", "link", "set", "lo", "mtu", str(MTU_BYTES), "up")
    try:
        rate("1mbit")
        drop((1,), per_cent=5)
    except subprocess.CalledProcessError as error:
        print(f"SKIPPED: {error.stderr.strip()}")
        return SKIPPED
    rate("")
    drop()
    return 0 if unittest.main(argv=sys.argv[:1] + sys.argv[3:], warnings="ignore", exit=False).result.wasSuccessful() else 1


if __name__ == "__main__":
    UPSCALED, UPSCALE = sys.argv[1:3]
    sys.exit(main())
