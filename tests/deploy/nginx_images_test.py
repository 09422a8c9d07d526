#!/usr/bin/python3
"""deploy/nginx/images.conf, a cache of signed URLs, in front of a built server: nginx_images_test.py UPSCALED. Exits with 77
where there is no nginx of 1.19.5 or later. A browser shows a page with such an image, if Chromium is here."""
import http.client
import http.server
import json
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import unittest

import proxies
from proxies import PATIENCE_S
import harness

sys.path.insert(0, str(proxies.ROOT / "client" / "python"))
from upscaled_client import sign_url  # noqa: E402

SKIPPED = 77
IMAGE = (proxies.ROOT / "tests/data/fast-2x/input.png").read_bytes()
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
CHROME_ACCEPTS = "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8"
FIREFOX_ACCEPTS = "image/avif,image/webp,image/png,image/svg+xml,image/*;q=0.8,*/*;q=0.5"


class Host(http.server.BaseHTTPRequestHandler):
    """An image, and pages that tests put on it."""

    pages = {}

    def do_GET(self):
        page = self.pages.get(self.path)
        body = IMAGE if page is None else page.encode()
        self.send_response(200)
        self.send_header("Content-Type", "image/png" if page is None else "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def ask(port, target, method="GET", **fields):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=PATIENCE_S)
    connection.request(method, target, headers=fields)
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read()


class ImageCacheTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        host = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Host)
        threading.Thread(target=host.serve_forever, daemon=True).start()
        cls.addClassCleanup(host.shutdown)
        cls.host = f"http://127.0.0.1:{host.server_port}"
        keys = tempfile.NamedTemporaryFile("w", suffix=".json")
        cls.addClassCleanup(keys.close)
        made = subprocess.run([UPSCALED, "keys", "url", "--id", "cdn"], capture_output=True, text=True, check=True).stdout
        cls.key, _, entry = made.partition("\n")
        keys.write(json.dumps({"keys": [json.loads(entry)]}))
        keys.flush()
        cls.server = harness.Server(UPSCALED, flags=[
            f"--fetch-allow-private={cls.host}", f"--url-keys={keys.name}", "--default-model=fast-2x",
            "--trusted-proxies=127.0.0.1"])
        cls.addClassCleanup(cls.server.close)
        cls.port = proxies.start_image_cache(cls, pathlib.Path(cls.server.folder.name), cls.server.http)

    def sign(self, name, **options):
        return sign_url("", f"{self.host}/{name}", key=self.key, **options)

    def calls(self):
        """Calls that have reached the server."""
        pattern = re.compile(r'^upscaled_requests_total\{.*method="Upscale"')
        return sum(value for name, value in self.server.metrics().items() if pattern.match(name))

    def test_one_call_serves_all(self):
        before = self.calls()
        target = self.sign("once.png")
        status, fields, first = ask(self.port, target, Accept=CHROME_ACCEPTS)
        self.assertEqual((status, fields["X-Cache"], fields["Content-Type"]), (200, "MISS", "image/webp"), first[:300])
        self.assertRegex(fields["Cache-Control"], r"^public, max-age=\d+$")
        for accepts in (CHROME_ACCEPTS, FIREFOX_ACCEPTS):  # one copy, however a browser spells it
            status, fields, again = ask(self.port, target, Accept=accepts)
            self.assertEqual((status, fields["X-Cache"], again), (200, "HIT", first))
        status, _, nothing = ask(self.port, target, Accept=CHROME_ACCEPTS, **{"If-None-Match": fields["ETag"]})
        self.assertEqual((status, nothing), (304, b""))
        status, _, nothing = ask(self.port, target, "HEAD", Accept=CHROME_ACCEPTS)
        self.assertEqual((status, nothing), (200, b""))
        self.assertEqual(self.calls(), before + 1)

    def test_holds_a_copy_per_format(self):
        target = self.sign("formats.png")
        for accepts, kind in ((CHROME_ACCEPTS, "image/webp"), ("*/*", "image/png"), ("image/webp", "image/webp")):
            status, fields, _ = ask(self.port, target, Accept=accepts)
            self.assertEqual((status, fields["Content-Type"]), (200, kind), accepts)
        self.assertEqual(fields["X-Cache"], "HIT")

    def test_keeps_no_refusal(self):
        target = self.sign("refused.png", expires_in=-1)
        for _ in range(2):
            status, fields, body = ask(self.port, target)
            self.assertEqual((status, json.loads(body)["metadata"]["signature"]), (403, "expired"))
            self.assertNotEqual(fields["X-Cache"], "HIT")

    def test_a_changed_url_is_no_copy(self):
        target = self.sign("changed.png", scale=2)
        self.assertEqual(ask(self.port, target)[0], 200)
        for changed in (target + "&", target.replace("%3A", "%3a"), target.replace("upscale?", "%75pscale?"),
                        target.replace("scale=2", "scale=3"), target.replace("/v1", "//v1"), target + "#a"):
            status, fields, _ = ask(self.port, changed)
            self.assertIn(status, (400, 403, 404), changed)
            self.assertNotEqual(fields["X-Cache"], "HIT", changed)

    def test_passes_signed_images_only(self):
        self.assertEqual(ask(self.port, self.sign("a.png"), "POST")[0], 403)
        unsigned = self.sign("a.png").partition("&key=")[0]
        self.assertIn(ask(self.port, unsigned)[0], (403, 405))
        for path in ("/", "/v1/models", "/v1/info", "/metrics", "/v1/upscale/", "/v1/jobs/a", "/upscale.v1.UpscaleService/Upscale"):
            self.assertEqual(ask(self.port, path)[0], 404, path)

    @unittest.skipIf(CHROMIUM is None, "no chromium")
    def test_a_browser_shows_it(self):
        # A page of another origin, which has the image as any page has one.
        source = f"https://127.0.0.1:{self.port}{self.sign('cat.png', width=96)}".replace("&", "&amp;")
        Host.pages["/page"] = (f'<img src="{source}" onload="document.title = `${{naturalWidth}} px`" '
                               'onerror="document.title = `broken`">')
        with tempfile.TemporaryDirectory() as profile:
            shown = subprocess.run(
                [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--ignore-certificate-errors",
                 f"--user-data-dir={profile}", "--dump-dom", self.host + "/page"],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=300)
        self.assertIn("<title>96 px</title>", shown.stdout)
        _, fields, _ = ask(self.port, self.sign("cat.png", width=96), Accept=CHROME_ACCEPTS)
        self.assertEqual(fields["X-Cache"], "HIT", "the browser's copy is everybody's")


class BrokenAnswerTest(unittest.TestCase):
    def test_half_an_image_is_not_kept(self):
        answers = [b"5\r\nwhole\r\n", b"5\r\nwhole\r\n0\r\n\r\n"]  # the first breaks off
        upstream = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(upstream.close)

        def serve():
            for body in answers:
                connection, _ = upstream.accept()
                with connection:
                    while not connection.recv(65536).endswith(b"\r\n\r\n"):
                        pass
                    connection.sendall(b"HTTP/1.1 200 OK\r\nCache-Control: public, max-age=600\r\nContent-Type: image/png\r\n"
                                       b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + body)

        threading.Thread(target=serve, daemon=True).start()
        folder = tempfile.TemporaryDirectory()
        self.addClassCleanup(folder.cleanup)
        port = proxies.start_image_cache(BrokenAnswerTest, pathlib.Path(folder.name), upstream.getsockname())
        with self.assertRaises((http.client.IncompleteRead, OSError)):
            ask(port, "/v1/upscale?url=a")
        status, fields, body = ask(port, "/v1/upscale?url=a")
        self.assertEqual((status, fields["X-Cache"], body), (200, "MISS", b"whole"))
        self.assertEqual(ask(port, "/v1/upscale?url=a")[1]["X-Cache"], "HIT")


if __name__ == "__main__":
    if proxies.NGINX is None:
        print(f"SKIPPED: {proxies.WHY_NO_NGINX}")
        sys.exit(SKIPPED)
    UPSCALED = sys.argv[1]
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], warnings="ignore")
