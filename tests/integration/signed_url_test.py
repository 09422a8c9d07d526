#!/usr/bin/env python3
"""Signed URLs against a server's process and a host of images: signed_url_test.py UPSCALED UPSCALE

The command, the Python client and, if Node is here, the JavaScript client sign; the server takes what they signed, and
nothing else.
"""
import base64
import hashlib
import hmac
import http.client
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "client" / "python"))
from upscaled_client import Client, UnauthorizedError, sign_url  # noqa: E402

IMAGE = (ROOT / "tests/data/fast-2x/input.png").read_bytes()
RELOAD_PATIENCE_S = 60


class Images(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(IMAGE)))
        self.end_headers()
        self.wfile.write(IMAGE)

    def log_message(self, *_) -> None:
        pass


class Server:
    def __init__(self, *settings: str) -> None:
        self.process = subprocess.Popen(
            [UPSCALED, "--listen=127.0.0.1:0", "--http=127.0.0.1:0", "--admin=off", "--threads=2", "--drain-timeout=1s",
             "--default-model=fast-2x", *settings],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.log, self.port = [], 0
        for line in self.process.stdout:
            self.log.append(line)
            if match := re.search(r"listening .*http=127\.0\.0\.1:(\d+)", line):
                self.port = int(match[1])
            if " ready " in line:
                break
        else:
            sys.exit("the server ended before it was ready: " + "".join(self.log))
        threading.Thread(target=lambda: self.log.extend(self.process.stdout), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        self.process.kill()
        self.process.wait()

    def call(self, target: str, method: str = "GET", body: bytes = b"", **fields: str):
        """Sends the target as it is written."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=100)
        connection.request(method, target.removeprefix(self.url), body or None, fields)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()


def new_key(key_id: str, tenant: str = "shop") -> tuple[str, dict]:
    """The line that signs, and its entry in the file."""
    told = subprocess.run([UPSCALED, "keys", "url", "--id", key_id, "--tenant", tenant], capture_output=True, text=True, check=True)
    line, _, entry = told.stdout.partition("\n")
    return line, json.loads(entry)


class SignedUrlTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        host = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Images)
        threading.Thread(target=host.serve_forever, daemon=True).start()
        cls.addClassCleanup(host.shutdown)
        cls.origin = f"http://127.0.0.1:{host.server_port}"
        cls.source = cls.origin + "/public/my%20cat.png?size=1&name=a%26b"
        cls.line, cls.entry = new_key("2026-11")
        cls.keys = cls.folder / "url-keys.json"
        cls.keys.write_text(json.dumps({"keys": [cls.entry]}))
        cls.auth = cls.folder / "auth-keys.json"  # who posts needs a key, who has a signed URL needs none
        made = subprocess.run([UPSCALED, "keys", "new", "--name", "poster"], capture_output=True, text=True, check=True).stdout
        cls.api_key, _, principal = made.partition("\n")
        cls.auth.write_text(json.dumps({"keys": [json.loads(principal)]}))
        cls.server = Server(f"--fetch-allow-private={cls.origin}/public/", f"--url-keys={cls.keys}", f"--auth-keys={cls.auth}",
                            "--url-max-age=1h", "--log-level=debug")
        cls.addClassCleanup(cls.server.close)

    def sign(self, source: str = "", **options) -> str:
        return sign_url(self.server.url, source or self.source, **{"key": self.line, "format": "png", **options})

    def sign_by_hand(self, query: str) -> str:
        """Clients sign no such query."""
        key_id, _, secret = self.line.partition(":")
        target = f"/v1/upscale?{query}&key={key_id}"
        digest = hmac.digest(secret.encode(), target.encode(), hashlib.sha256)
        return f"{target}&sig={base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"

    def refuse(self, target: str, status: int, reason: str, signature: str = "", **more) -> dict:
        got, fields, body = self.server.call(target, **more)
        problem = json.loads(body)
        self.assertEqual((got, problem["reason"]), (status, reason), (target, problem))
        self.assertEqual(problem.get("metadata", {}).get("signature", ""), signature, problem)
        self.assertEqual(fields["Cache-Control"], "no-store", "caches must not keep a refusal")
        return problem

    def test_gives_the_image_that_a_post_gives(self) -> None:
        status, fields, image = self.server.call(self.sign(scale=3))
        self.assertEqual((status, fields["Content-Type"]), (200, "image/png"), image[:500])
        posted, _, expected = self.server.call("/v1/upscale?scale=3&format=png", "POST", IMAGE, **{"X-API-Key": self.api_key})
        self.assertEqual((posted, image), (200, expected))
        self.assertEqual((fields["Cache-Control"], fields["Vary"]), ("public, max-age=3600", "Accept"))
        again, fields_again, nothing = self.server.call(self.sign(scale=3), **{"If-None-Match": fields["ETag"]})
        self.assertEqual((again, nothing, fields_again["ETag"]), (304, b"", fields["ETag"]))
        self.assertEqual(fields_again["Cache-Control"], "public, max-age=3600")
        head, head_fields, nothing = self.server.call(self.sign(scale=3), "HEAD")
        self.assertEqual((head, nothing), (200, b""))
        for name in ("ETag", "Content-Type", "Cache-Control", "Vary", "Upscale-Width"):
            self.assertEqual(head_fields[name], fields[name], name)

    def test_may_be_kept_no_longer_than_it_lasts(self) -> None:
        _, fields, _ = self.server.call(self.sign(expires_in=100))
        age = int(fields["Cache-Control"].removeprefix("public, max-age="))
        self.assertTrue(0 <= age <= 100, age)
        problem = self.refuse(self.sign(expires_in=-5), 403, "PERMISSION_DENIED", "expired")
        self.assertEqual(problem["metadata"]["field"], "expires")

    def test_format_follows_accept(self) -> None:
        formats = set(json.loads(self.server.call("/v1/info", **{"X-API-Key": self.api_key})[2])["output_formats"])
        url = sign_url(self.server.url, self.source, key=self.line)
        kinds = {"": "image/png", "*/*": "image/png", "image/webp,*/*": "image/webp", "image/jpeg": "image/jpeg",
                 "image/png,image/jpeg;q=0.5": "image/png",
                 "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8": "image/webp"}  # Chrome's
        if "avif" in formats:
            kinds["image/avif"] = "image/avif"
        for accept, kind in kinds.items():
            status, fields, _ = self.server.call(url, Accept=accept)
            self.assertEqual((status, fields["Content-Type"], fields["Vary"]), (200, kind, "Accept"), accept)

    def test_takes_what_each_client_signs(self) -> None:
        told = subprocess.run(
            [UPSCALE, "sign", self.source, "-s", "2", "-f", "webp", "--expires-in", "600", "--server", self.server.url],
            capture_output=True, text=True, env=os.environ | {"UPSCALE_URL_KEY": self.line})
        self.assertEqual(told.returncode, 0, told.stderr)
        urls = {"command": told.stdout.strip(), "python": self.sign(scale=2, expires_in=600)}
        if node := shutil.which("node"):
            script = (f"import {{ signUrl }} from {json.dumps(str(ROOT / 'client/js/sign.js'))};\n"
                      f"console.log(signUrl({json.dumps(self.server.url + '/')}, {json.dumps(self.source)},"
                      f" {{ key: {json.dumps(self.line)}, widthPx: 64, noiseLevel: 1, model: 'general-2x', expiresIn: 600 }}))")
            program = self.folder / "sign.mjs"
            program.write_text(script)
            signed = subprocess.run([node, program], capture_output=True, text=True)
            self.assertEqual(signed.returncode, 0, signed.stderr)
            urls["javascript"] = signed.stdout.strip()
        for client, url in urls.items():
            status, _, body = self.server.call(url)
            self.assertEqual(status, 200, (client, url, body[:300]))

    def test_command_says_what_it_lacks(self) -> None:
        def fail(*arguments: str, **variables: str) -> str:
            told = subprocess.run([UPSCALE, "sign", *arguments], capture_output=True, text=True, env=os.environ | variables)
            self.assertNotEqual(told.returncode, 0)
            self.assertEqual(told.stdout, "")
            return told.stderr
        self.assertIn("UPSCALE_URL_KEY", fail(self.source))
        self.assertIn("--url-key-file", fail(self.source, "--url-key-file=/none"))
        self.assertIn("ID:SECRET", fail(self.source, UPSCALE_URL_KEY="short:key"))
        self.assertNotIn("c-e-c-r-e-t", fail(self.source, UPSCALE_URL_KEY="c-e-c-r-e-t" * 4))
        self.assertIn("ftp://", fail("ftp://a.example/b.png", UPSCALE_URL_KEY=self.line))
        self.assertIn("no http", fail(self.source, "--server=127.0.0.1:8001", UPSCALE_URL_KEY=self.line))

    def test_python_refuses_what_is_no_key(self) -> None:
        for key in ("", "a", "a:b", ":" + "x" * 40, "x" * 50):
            with self.assertRaises(ValueError):
                sign_url(self.server.url, self.source, key=key)

    def test_refuses_what_was_not_signed(self) -> None:
        url = self.sign(scale=2)
        target = url.removeprefix(self.server.url)
        path, _, query = target.partition("?")
        fields = query.split("&")
        sig = fields[-1]
        for changed in (target.replace("scale=2", "scale=3"), target.replace("%3A", "%3a"), target.replace("scale", "sc%61le"),
                        target.replace("%2520", "+"), path + "?" + "&".join([*fields[1:-2], fields[0], *fields[-2:]]),
                        path + "?" + "&".join([*fields[:-2], fields[1], *fields[-2:]]), path + "?tta=1&" + query,
                        "/v1/%75pscale?" + query, target.replace(sig, "sig=" + "A" * 43)):
            self.assertNotEqual(changed, target)
            self.refuse(changed, 403, "PERMISSION_DENIED", "wrong")
        for malformed in (target + "&tta=1", target + "&" + sig, target[:-1], target + "=", path + "?" + sig + "&" + query,
                          path + "?" + sig):
            why = "wrong" if malformed.startswith(path + "?" + sig + "&") else "malformed"
            self.refuse(malformed, 403, "PERMISSION_DENIED", why)
        self.refuse(path + "?" + "&".join(fields[:-1]), 401, "UNAUTHENTICATED")  # no signature, and no key
        self.refuse(path + "?" + "&".join(fields[:-1]), 403, "PERMISSION_DENIED", "missing", **{"X-API-Key": self.api_key})
        self.refuse(self.sign(key="none:" + "x" * 40), 403, "PERMISSION_DENIED", "unknown_key")
        self.assertEqual(self.server.call(url)[0], 200)

    def test_signs_one_call_and_no_more(self) -> None:
        target = self.sign(scale=2)
        self.refuse(target, 401, "UNAUTHENTICATED", method="POST", body=IMAGE)  # no key to post with
        self.refuse(target.replace("/v1/upscale", "/v1/models"), 401, "UNAUTHENTICATED")
        self.refuse(target, 400, "INVALID_OPTION", method="GET", body=IMAGE)  # an image beside the URL
        for source in (self.origin + "/private/a.png", "http://127.0.0.1:1/a.png"):
            self.refuse(self.sign(source), 403, "SOURCE_REFUSED")
        for source in ("file:///etc/passwd", self.origin + "/public/my cat.png", self.origin + "/public/\u00e9.png"):
            self.assertRaisesRegex(ValueError, "percent-encoded", self.sign, source)
            told = subprocess.run([UPSCALE, "sign", source, "--server", self.server.url], capture_output=True, text=True, check=False,
                                  env={**os.environ, "UPSCALE_URL_KEY": self.line})
            self.assertEqual((told.returncode, told.stdout), (1, ""), told.stderr)
            self.refuse(self.sign_by_hand("url=" + urllib.parse.quote(source, safe="")), 400, "INVALID_OPTION")
        self.refuse(self.sign(scale=99), 400, "INVALID_OPTION")
        self.refuse(self.sign(sig="x"), 400, "INVALID_OPTION")
        self.assertIn("url is missing", self.refuse(self.sign_by_hand("url=&scale=2"), 400, "INVALID_OPTION")["detail"])

    def test_signed_calls_are_logged_with_their_key(self) -> None:
        self.assertEqual(self.server.call(self.sign(scale=2))[0], 200)
        deadline = time.monotonic() + RELOAD_PATIENCE_S
        while not any("2026-11" in line for line in self.server.log):
            self.assertLess(time.monotonic(), deadline, self.server.log)
            time.sleep(0.05)
        secret = self.entry["secret"]
        self.assertFalse([line for line in self.server.log if secret in line or "&sig=" in line])


class KeysChangeTest(unittest.TestCase):
    def test_keys_change_while_the_server_runs(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            host = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Images)
            threading.Thread(target=host.serve_forever, daemon=True).start()
            self.addCleanup(host.shutdown)
            source = f"http://127.0.0.1:{host.server_port}/a.png"
            (old, old_entry), (new, new_entry) = new_key("old"), new_key("new")
            keys = folder / "keys.json"
            keys.write_text(json.dumps({"keys": [old_entry]}))
            server = Server(f"--fetch-allow-private={source}", f"--url-keys={keys}")  # without --auth-keys
            self.addCleanup(server.close)

            def await_status(line: str, status: int) -> None:
                deadline = time.monotonic() + RELOAD_PATIENCE_S
                while (got := server.call(sign_url(server.url, source, key=line))[0]) != status:
                    self.assertLess(time.monotonic(), deadline, got)
                    time.sleep(0.1)

            await_status(old, 200)
            await_status(new, 403)
            keys.write_text(json.dumps({"keys": [old_entry, new_entry]}))
            await_status(new, 200)
            await_status(old, 200)
            keys.write_text(json.dumps({"keys": [new_entry]}))
            await_status(old, 403)
            await_status(new, 200)
            self.assertTrue(Client(server.url).upscale(IMAGE).read(), "whoever may post still may")

    def test_without_keys_get_is_refused(self) -> None:
        server = Server()
        self.addCleanup(server.close)
        line, _ = new_key("a")
        status, fields, body = server.call(sign_url(server.url, "http://a.example/b.png", key=line))
        self.assertEqual((status, fields["Allow"]), (405, "POST, HEAD"))
        self.assertIn("--url-keys", json.loads(body)["detail"])

    def test_a_wrong_file_ends_the_start(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            keys = pathlib.Path(name, "keys.json")
            keys.write_text('{"keys": [{"id": "a", "tenant": "b", "secret": "too short"}]}')
            ended = subprocess.run([UPSCALED, "--listen=127.0.0.1:0", "--http=127.0.0.1:0", "--admin=off", f"--url-keys={keys}"],
                                   capture_output=True, text=True, timeout=100)
            self.assertNotEqual(ended.returncode, 0)
            self.assertIn("keys[0]", ended.stdout + ended.stderr)
            self.assertNotIn("too short", ended.stdout + ended.stderr)


if __name__ == "__main__":
    UPSCALED, UPSCALE = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], warnings="ignore")
