#!/usr/bin/env python3
"""Sources by URL, against a server's process and a host of images with TLS: fetch_test.py UPSCALED

Both are on the loopback address; the host's certificate is of 127.0.0.1 and of no other name.
"""
import http.client
import http.server
import json
import os
import pathlib
import re
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
IMAGE = (ROOT / "tests/data/fast-2x/input.png").read_bytes()
HANGING = threading.Event()  # a request for /public/hang has come


class Images(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/public/away":
            self.send_response(302)
            self.send_header("Location", "/private/image.png")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(IMAGE)))
        self.end_headers()
        if self.path == "/public/hang":
            HANGING.set()
            self.rfile.read(1)  # until the server gives up
            return
        self.wfile.write(IMAGE)

    def log_message(self, *_) -> None:
        pass


def start_host(certificate: pathlib.Path, key: pathlib.Path) -> http.server.ThreadingHTTPServer:
    host = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Images)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    host.socket = context.wrap_socket(host.socket, server_side=True, do_handshake_on_connect=False)
    host.handle_error = lambda *_: None  # handshakes that the server breaks off
    threading.Thread(target=host.serve_forever, daemon=True).start()
    return host


class Server:
    def __init__(self, binary: str, *settings: str) -> None:
        self.process = subprocess.Popen(
            [binary, "--listen=127.0.0.1:0", "--http=127.0.0.1:0", "--admin=off", "--threads=2", "--drain-timeout=1s",
             "--default-model=fast-2x", *settings],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=os.environ | {"https_proxy": "http://127.0.0.1:1", "ALL_PROXY": "http://127.0.0.1:1"})
        self.port = 0
        for line in self.process.stdout:
            if match := re.search(r"listening .*http=127\.0\.0\.1:(\d+)", line):
                self.port = int(match[1])
            if " ready " in line:
                return
        sys.exit("the server ended before it was ready")

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_) -> None:
        self.process.kill()
        self.process.communicate()

    def post(self, query: str, body: bytes = b"", **fields: str) -> tuple[int, http.client.HTTPMessage, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=100)
        connection.request("POST", f"/v1/upscale?{query}", body, fields)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()

    def fetch(self, url: str, more: str = "", **fields: str):
        return self.post(f"url={urllib.parse.quote(url, safe='')}{more}", **fields)

    def expect_problem(self, url: str, status: int, reason: str, part: str) -> None:
        got, _, body = self.fetch(url)
        problem = json.loads(body)
        assert (got, problem["reason"]) == (status, reason) and part in problem["detail"], (url, problem)


def check_trusting(server: Server, port: int) -> None:
    """The server trusts the host's certificate."""
    url = f"https://127.0.0.1:{port}/public/image.png?signature=secret"
    status, fields, sent = server.post("", IMAGE)
    assert status == 200, sent
    status, fetched_fields, fetched = server.fetch(url)
    assert status == 200 and fetched == sent, fetched[:500]
    assert fields["ETag"] == fetched_fields["ETag"], "a result has a name, wherever its source came from"
    status, _, body = server.fetch(url, **{"If-None-Match": fields["ETag"]})
    assert (status, body) == (304, b"")
    status, _, body = server.fetch(url, "&dry_run=1")
    assert status == 200 and json.loads(body)["accepted"], body
    server.expect_problem(f"https://127.0.0.1:{port}/private/image.png", 403, "SOURCE_REFUSED", "--fetch-allow")
    server.expect_problem(f"https://127.0.0.1:{port}/public/away", 403, "SOURCE_REFUSED", "redirects to")
    server.expect_problem(f"https://localhost:{port}/a", 502, "SOURCE_FAILED", "certificate")


def check_streamed(server: Server, port: int) -> None:
    """Its sources are too large to be held."""
    _, _, sent = server.post("", IMAGE)
    status, _, fetched = server.fetch(f"https://127.0.0.1:{port}/public/image.png")
    assert status == 200 and fetched == sent, fetched[:500]


def check_drain(server: Server, port: int) -> None:
    """A source that hangs does not hold up the end."""
    call = threading.Thread(target=lambda: server.fetch(f"https://127.0.0.1:{port}/public/hang"))
    call.start()
    HANGING.wait()
    server.process.send_signal(signal.SIGTERM)
    log, _ = server.process.communicate(timeout=60)
    assert server.process.returncode == 0, log
    assert f"fetched_from=https://127.0.0.1:{port}" in log and "secret" not in log, log
    call.join()


def main() -> int:
    binary = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        certificate, key = folder / "host.pem", folder / "host.key"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=host", "-addext",
                        "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate], check=True, capture_output=True)
        host = start_host(certificate, key)
        port = host.server_port
        own = [f"--fetch-allow-private=https://127.0.0.1:{port}/public/", f"--fetch-allow-private=https://localhost:{port}"]
        with Server(binary, *own, f"--fetch-ca={certificate}") as server:
            check_trusting(server, port)
            check_drain(server, port)
        with Server(binary, *own, f"--fetch-ca={certificate}", "--hold-source-bytes=1KiB") as server:
            check_streamed(server, port)
        with Server(binary, *own) as server:
            server.expect_problem(f"https://127.0.0.1:{port}/public/image.png", 502, "SOURCE_FAILED", "certificate")
        with Server(binary, f"--fetch-allow=https://127.0.0.1:{port}", f"--fetch-ca={certificate}") as server:
            server.expect_problem(f"https://127.0.0.1:{port}/public/image.png", 403, "SOURCE_REFUSED", "(private)")
        host.shutdown()
    print("sources are fetched from where they may be, and from nowhere else")
    return 0


if __name__ == "__main__":
    sys.exit(main())
