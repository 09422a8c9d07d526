#!/usr/bin/python3
"""deploy/nginx's configuration in front of a built server: nginx_test.py UPSCALED UPSCALE. Exits with 77 where there is no
nginx of 1.19.5 or later."""
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


class NginxTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server(UPSCALED, flags=["--max-connections-per-address=4096"])
        cls.addClassCleanup(cls.server.close)
        cls.folder = pathlib.Path(cls.server.folder.name)
        cls.port = proxies.start_nginx(cls, cls.server)

    def upscale(self, *arguments, direct=False):
        host, port = self.server.grpc if direct else ("127.0.0.1", self.port)
        tls = [] if direct else ["--tls", f"--tls-ca={self.folder}/tls.pem", "--tls-server-name=attack"]
        command = [UPSCALE, *arguments, f"--server={host}:{port}", "--retries=0", *tls]
        return subprocess.run(command, capture_output=True, text=True, timeout=10 * PATIENCE_S)

    def test_a_large_image_passes_as_it_is(self):
        source = self.folder / "in.png"
        source.write_bytes(messages.png(1500, 1000))  # 4.5 MB, and 18 MB of result
        for name, direct in (("direct.png", True), ("nginx.png", False)):
            result = self.upscale("image", "-i", source, "-o", self.folder / name, "--model=fast-2x", direct=direct)
            self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual((self.folder / "direct.png").read_bytes(), (self.folder / "nginx.png").read_bytes())

    def test_errors_keep_their_details(self):
        source = self.folder / "small.png"
        source.write_bytes(messages.png(8, 8))
        result = self.upscale("image", "-i", source, "-o", self.folder / "none.png", "--model=no-such")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("upscale models", result.stderr)  # advice by the reason in the status's details

    def cancelled_calls(self):
        pattern = re.compile(r'^upscaled_requests_total\{.*code="CANCELLED".*method="UpscaleImage"')
        return sum(value for name, value in self.server.metrics().items() if pattern.match(name))

    def in_flight(self):
        return self.server.metrics()["upscaled_requests_in_flight"]

    def await_true(self, condition):
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def test_cancelling_ends_the_call_on_the_server(self):
        before = self.cancelled_calls()
        connection = wire.Connection(("127.0.0.1", self.port), tls=harness.client_tls())
        stream = connection.open(wire.IMAGE, messages.image_start(), messages.image_chunk(messages.png(64, 64)[:100]))
        self.await_true(lambda: self.in_flight() == 1)
        connection.reset(stream)
        self.await_true(lambda: self.in_flight() == 0)
        other = wire.Connection(("127.0.0.1", self.port), tls=harness.client_tls())
        other.open(wire.IMAGE, messages.image_start(), messages.image_chunk(messages.png(64, 64)[:100]))
        self.await_true(lambda: self.in_flight() == 1)
        other.close()  # the client is gone
        self.await_true(lambda: self.in_flight() == 0)
        self.await_true(lambda: self.cancelled_calls() == before + 2)
        connection.close()

    def test_http_passes(self):
        trusted = ssl.create_default_context(cafile=self.folder / "tls.pem")
        trusted.check_hostname = False
        url = f"https://127.0.0.1:{self.port}/v2/health/ready"
        with urllib.request.urlopen(url, context=trusted, timeout=PATIENCE_S) as answer:
            self.assertEqual((answer.status, answer.read()), (200, b"ok\n"))

    def test_bodies_over_http_that_stand_still_are_closed_within_a_minute(self):
        shipped = (proxies.ROOT / "deploy" / "nginx" / "upscaled.conf").read_text()
        of_all, *locations = re.split(r"\n    location ", shipped)
        self.assertEqual(re.findall(r"client_body_timeout (\S+);", of_all), ["60s"])
        longer = [each.split()[1] for each in locations if "client_body_timeout" in each]
        self.assertEqual(len(longer), 1)
        self.assertIn("UpscaleService", longer[0])  # gRPC's alone

    def test_operators_port_is_not_passed_on(self):
        connection = wire.Connection(("127.0.0.1", self.port), tls=harness.client_tls())
        stream = connection.open(wire.ADMIN_RELOAD, b"", end=True)
        answer = connection.wait(stream, PATIENCE_S)
        self.assertIsNone(answer.status)  # HTTP's 404, of the HTTP port
        connection.close()


if __name__ == "__main__":
    if proxies.NGINX is None:
        print(f"SKIPPED: {proxies.WHY_NO_NGINX}")
        sys.exit(SKIPPED)
    UPSCALED, UPSCALE = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], warnings="ignore")
