#!/usr/bin/python3
"""`upscale image --spread` over three servers, one of which is killed meanwhile: spread_test.py UPSCALED UPSCALE. Exits
with 77 where each image was done too soon for that."""
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "attack"))
import harness
import messages

PATIENCE_S = 300
HEIGHT_PX = 1000
WIDTHS_PX = (1600, 4800, 14400)  # the next one where the image was done too soon
STILL_S = 1.5  # no server but the stopped one has anything to do
SKIPPED = 77


class SpreadTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.servers = [harness.Server(UPSCALED, flags=["--threads=1"]) for _ in range(3)]
        for server in cls.servers:
            cls.addClassCleanup(server.close)
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = pathlib.Path(holder.name)
        cls.source = cls.folder / "in.png"

    def start(self, result, *arguments, servers):
        endpoints = ",".join("{}:{}".format(*server.grpc) for server in servers)
        command = [UPSCALE, "image", "-i", self.source, "-o", self.folder / result, f"--server={endpoints}", "-m", "fast-2x", "-t", "128", *arguments]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=harness.die_with_parent)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def end(self, process, result):
        _, told = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 0, told)
        return (self.folder / result).read_bytes()

    @staticmethod
    def tiles(server):
        pattern = re.compile(r'^upscaled_requests_total\{.*code="OK".*method="UpscaleTiles"')
        return sum(value for name, value in server.metrics().items() if pattern.match(name))

    def await_true(self, process, condition):
        """Whether it came true before `process` ended."""
        deadline = time.monotonic() + PATIENCE_S
        while process.poll() is None:
            if condition():
                return process.poll() is None
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        return False

    def waits_for(self, process, stopped):
        """Whether `process` came to depend on the `stopped` server: the others stand still, and it does not end."""
        last, since = None, time.monotonic()

        def still():
            nonlocal last, since
            counts = [self.tiles(server) for server in self.servers if server is not stopped]
            if counts != last:
                last, since = counts, time.monotonic()
            return time.monotonic() - since > STILL_S

        return self.await_true(process, still)

    def lose_one(self, width_px):
        """Whether the image was still being computed."""
        self.source.write_bytes(messages.png(width_px, HEIGHT_PX))
        whole = self.end(self.start("whole.png", servers=self.servers[:1]), "whole.png")
        lost, *others = self.servers
        before = {server: self.tiles(server) for server in self.servers}
        process = self.start("spread.png", "--spread", servers=self.servers)
        in_time = self.await_true(process, lambda: self.tiles(lost) > before[lost] + 1)
        if in_time:
            lost.process.send_signal(signal.SIGSTOP)
            in_time = self.waits_for(process, lost)
            lost.process.send_signal(signal.SIGKILL if in_time else signal.SIGCONT)
        self.assertTrue(self.end(process, "spread.png") == whole)
        if in_time:
            for server in others:
                self.assertGreater(self.tiles(server), before[server] + 1)
        return in_time

    def test_a_killed_server_costs_nothing_but_its_tiles(self):
        if not any(self.lose_one(width_px) for width_px in WIDTHS_PX):
            self.skipTest("each image was done before a server could be killed")


if __name__ == "__main__":
    UPSCALED, UPSCALE = sys.argv[1:3]
    result = unittest.main(argv=sys.argv[:1] + sys.argv[3:], warnings="ignore", exit=False).result
    sys.exit(1 if not result.wasSuccessful() else SKIPPED if result.skipped else 0)
