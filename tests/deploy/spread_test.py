#!/usr/bin/python3
"""`upscale image --spread` over three servers, one of which is killed meanwhile: spread_test.py UPSCALED UPSCALE."""
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
SIZE_PX = (1600, 1000)


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
        cls.source.write_bytes(messages.png(*SIZE_PX))

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

    def await_true(self, condition):
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def test_a_killed_server_costs_nothing_but_its_tiles(self):
        whole = self.end(self.start("whole.png", servers=self.servers[:1]), "whole.png")
        lost, *others = self.servers
        process = self.start("spread.png", "--spread", servers=self.servers)
        self.await_true(lambda: self.tiles(lost) > 1)
        lost.process.send_signal(signal.SIGSTOP)  # with what it is computing, and so before the image is done
        self.assertIsNone(process.poll())
        lost.process.kill()
        self.assertTrue(self.end(process, "spread.png") == whole)
        for server in others:
            self.assertGreater(self.tiles(server), 1)


if __name__ == "__main__":
    UPSCALED, UPSCALE = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], warnings="ignore")
