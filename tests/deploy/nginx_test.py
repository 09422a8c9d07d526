#!/usr/bin/python3
"""deploy/nginx's configuration in front of a built server: nginx_test.py UPSCALED UPSCALE. Exits with 77 where there is no
nginx."""
import os
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "attack"))
import harness
import messages
import wire

NGINX = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
SKIPPED = 77
PATIENCE_S = 30

MAIN = """
daemon off;
pid {folder}/nginx.pid;
error_log stderr warn;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/upscaled.conf;
}}
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class NginxTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server(UPSCALED, flags=["--max-connections-per-address=4096"])
        cls.addClassCleanup(cls.server.close)
        cls.folder = pathlib.Path(cls.server.folder.name)
        harness.make_certificate(cls.folder, "tls")
        cls.port = free_port()
        cls.write_configuration()
        command = [NGINX, "-p", cls.folder, "-c", cls.folder / "nginx.conf", "-e", "stderr"]
        cls.nginx = subprocess.Popen(command, preexec_fn=harness.die_with_parent)
        cls.addClassCleanup(cls.nginx.wait)
        cls.addClassCleanup(cls.nginx.terminate)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return socket.create_connection(("127.0.0.1", cls.port)).close()
            except OSError:
                if time.monotonic() > deadline or cls.nginx.poll() is not None:
                    raise
                time.sleep(0.02)

    @classmethod
    def write_configuration(cls):
        """A copy with the ports and files of this test."""
        text = (ROOT / "deploy" / "nginx" / "upscaled.conf").read_text()
        for old, new in (
            ("127.0.0.1:8001;", f"127.0.0.1:{cls.server.grpc[1]};"),
            ("127.0.0.1:8000;", f"127.0.0.1:{cls.server.http[1]};"),
            ("listen 443 ssl", f"listen 127.0.0.1:{cls.port} ssl"),
            ("    listen [::]:443 ssl http2;\n", ""),
            ("/etc/upscaled/", f"{cls.folder}/"),
        ):
            assert old in text, old
            text = text.replace(old, new)
        (cls.folder / "upscaled.conf").write_text(text)
        (cls.folder / "nginx.conf").write_text(MAIN.format(folder=cls.folder))

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

    def test_operators_port_is_not_passed_on(self):
        connection = wire.Connection(("127.0.0.1", self.port), tls=harness.client_tls())
        stream = connection.open(wire.ADMIN_RELOAD, b"", end=True)
        answer = connection.wait(stream, PATIENCE_S)
        self.assertIsNone(answer.status)  # HTTP's 404, of the HTTP port
        connection.close()


if __name__ == "__main__":
    if NGINX is None or shutil.which("openssl") is None:
        print("SKIPPED: no nginx or no openssl here")
        sys.exit(SKIPPED)
    UPSCALED, UPSCALE = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], warnings="ignore")
