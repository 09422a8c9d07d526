#!/usr/bin/python3
"""deploy/haproxy's configuration in front of two built servers: haproxy_test.py UPSCALED UPSCALE. Exits with 77 where there is
no HAProxy."""
import pathlib
import re
import ssl
import subprocess
import sys
import time
import unittest
import urllib.request

import proxies
from proxies import PATIENCE_S
import harness
import messages
import wire

SKIPPED = 77
UNIMPLEMENTED = 12
MODEL = "fast-2x"


class HaproxyTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.servers = [harness.Server(UPSCALED, flags=["--max-connections-per-address=4096"]) for _ in range(2)]
        for server in cls.servers:
            cls.addClassCleanup(server.close)
        cls.folder = pathlib.Path(cls.servers[0].folder.name)
        cls.port = proxies.start_haproxy(cls, *cls.servers)

    def connect(self):
        return wire.Connection(("127.0.0.1", self.port), tls=harness.client_tls())

    def upscale(self, *arguments):
        command = [UPSCALE, "image", *arguments, f"--model={MODEL}", f"--server=127.0.0.1:{self.port}", "--tls",
                   f"--tls-ca={self.folder}/tls.pem", "--tls-server-name=attack"]
        return subprocess.run(command, capture_output=True, text=True, timeout=10 * PATIENCE_S)

    def post(self, image):
        trusted = ssl.create_default_context(cafile=self.folder / "tls.pem")
        trusted.check_hostname = False
        request = urllib.request.Request(f"https://127.0.0.1:{self.port}/v1/upscale?model={MODEL}", data=image, method="POST")
        return urllib.request.urlopen(request, context=trusted, timeout=10 * PATIENCE_S).read()

    @staticmethod
    def calls(server, method):
        pattern = re.compile(rf'^upscaled_requests_total\{{.*code="OK".*method="{method}"')
        return sum(value for name, value in server.metrics().items() if pattern.match(name))

    def test_unary_calls_reach_both_replicas(self):
        before = [self.calls(server, "Upscale") for server in self.servers]
        connection = self.connect()
        for _ in range(8):
            answer = connection.call(wire.UNARY, messages.unary(messages.png(64, 64), model=MODEL), timeout_s=PATIENCE_S)
            self.assertEqual(answer.status, 0)
        connection.close()
        done = [self.calls(server, "Upscale") - ago for server, ago in zip(self.servers, before)]
        self.assertEqual(sum(done), 8)
        self.assertGreater(min(done), 0)

    def test_a_stream_of_an_image_is_refused_with_advice(self):
        source = self.folder / "in.png"
        source.write_bytes(messages.png(64, 64))
        done = self.upscale("-i", source, "-o", self.folder / "out.png")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("--spread", done.stderr)
        connection = self.connect()
        self.assertEqual(connection.call(wire.IMAGE, messages.image_start(), timeout_s=PATIENCE_S).status, UNIMPLEMENTED)
        connection.close()

    def test_a_large_image_passes_over_http_and_in_tiles(self):
        image = messages.png(3000, 3000)  # noise of 27 MB
        direct = urllib.request.Request("http://{}:{}/v1/upscale?model={}".format(*self.servers[0].http, MODEL), data=image)
        whole = urllib.request.urlopen(direct, timeout=10 * PATIENCE_S).read()
        self.assertTrue(self.post(image) == whole)
        source, spread = self.folder / "large.png", self.folder / "spread.png"
        source.write_bytes(image)
        done = self.upscale("-i", source, "-o", spread, "--spread")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(spread.read_bytes() == whole)

    def test_operators_calls_are_not_passed_on(self):
        connection = self.connect()
        self.assertIsNone(connection.call(wire.ADMIN_RELOAD, b"", timeout_s=PATIENCE_S).status)
        connection.close()


if __name__ == "__main__":
    if proxies.HAPROXY is None:
        print("SKIPPED: no haproxy here")
        sys.exit(SKIPPED)
    UPSCALED, UPSCALE = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], warnings="ignore")
