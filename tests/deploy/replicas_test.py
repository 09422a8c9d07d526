#!/usr/bin/python3
"""Replicas behind deploy/nginx's configuration: replicas_test.py UPSCALED UPSCALE. Exits with 77 where there is no nginx of
1.19.5 or later."""
import pathlib
import subprocess
import sys
import time
import unittest

import proxies
from proxies import PATIENCE_S
import harness
import messages

SKIPPED = 77
# Noise of 27 MB: buffers along the way hide a proxy that stops in the midst of smaller ones.
SIZE_PX = (3000, 3000)
MODEL = "fast-2x"


class ReplicasTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.servers = [harness.Server(UPSCALED, flags=["--max-connections-per-address=4096"]) for _ in range(2)]
        for server in cls.servers:
            cls.addClassCleanup(server.close)
        cls.folder = pathlib.Path(cls.servers[0].folder.name)
        cls.port = proxies.start_nginx(cls, *cls.servers)

    def through_nginx(self):
        return [f"--server=127.0.0.1:{self.port}", "--tls", f"--tls-ca={self.folder}/tls.pem", "--tls-server-name=attack"]

    def start(self, source, result, connection):
        command = [UPSCALE, "image", "-i", source, "-o", result, f"--model={MODEL}", "-v", *connection]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=harness.die_with_parent)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def busy(self):
        """The server that has sent a part of a result."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            for server in self.servers:
                if server.process.poll() is None and server.metrics()["upscaled_requests_in_flight"] == 1:
                    return server
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def test_a_killed_replica_loses_no_image(self):
        source = self.folder / "in.png"
        source.write_bytes(messages.png(*SIZE_PX))
        direct, killed = self.folder / "direct.png", self.folder / "killed.png"
        _, told = self.start(source, direct, ["--server={}:{}".format(*self.servers[0].grpc)]).communicate(timeout=10 * PATIENCE_S)
        self.assertTrue(direct.exists(), told)
        process = self.start(source, killed, self.through_nginx())
        self.busy().process.kill()
        _, told = process.communicate(timeout=10 * PATIENCE_S)
        self.assertEqual(process.returncode, 0, told)
        self.assertIn("trying again", told)
        self.assertTrue(killed.read_bytes() == direct.read_bytes())


if __name__ == "__main__":
    if proxies.NGINX is None:
        print(f"SKIPPED: {proxies.WHY_NO_NGINX}")
        sys.exit(SKIPPED)
    UPSCALED, UPSCALE = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], warnings="ignore")
