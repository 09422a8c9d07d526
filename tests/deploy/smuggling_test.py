#!/usr/bin/python3
"""Request smuggling through nginx and HAProxy: smuggling_test.py UPSCALED. The proxies refuse a path, so that a request
for it is executed only where the server sees one and the proxy none. Behind each form other clients, whose requests
take the same connection from proxy to server, must get their own answers. Exits with 77 where there is no proxy."""
import http.client
import json
import re
import socket
import ssl
import sys
import time
import unittest

import proxies
from proxies import PATIENCE_S
from smuggling_forms import FORBIDDEN, HIDDEN, MARKER, all_forms
import harness

QUIET_S = 0.3  # so long without a byte ends a form; what comes later is counted, too
OTHERS = 2  # requests of others behind each form
SKIPPED = 77


class Through:
    """The rules that must hold through any proxy."""

    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server(UPSCALED, flags=["--max-connections-per-address=4096"])
        cls.addClassCleanup(cls.server.close)
        cls.tls = ssl._create_unverified_context()
        cls.start_proxy()

    def connect(self):
        return self.tls.wrap_socket(socket.create_connection(("127.0.0.1", self.port), PATIENCE_S))

    def count(self, method):
        """Requests of that method that the server has executed."""
        pattern = re.compile(rf'^upscaled_requests_total\{{.*method="{method}"')
        return sum(value for name, value in self.server.metrics().items() if pattern.match(name))

    def exchange(self, text):
        """The bytes that come back until the connection ends or is quiet."""
        answer = b""
        try:
            with self.connect() as connection:
                connection.sendall(text)
                connection.settimeout(QUIET_S)
                while piece := connection.recv(1 << 16):
                    answer += piece
        except OSError:
            pass
        return answer

    def ask(self):
        """A request of somebody else, and its own answer."""
        with self.connect() as connection:
            connection.sendall(MARKER)
            answer = http.client.HTTPResponse(connection)
            answer.begin()
            self.assertEqual(answer.status, 200)
            self.assertIn("version", json.loads(answer.read()))

    def test_the_path_is_refused_and_would_be_executed(self):
        before = self.count("GetModel")
        self.assertIn(b" 403 ", self.exchange(HIDDEN).split(b"\r\n")[0])
        self.assertEqual(self.count("GetModel"), before)
        direct = http.client.HTTPConnection(*self.server.http, PATIENCE_S)
        direct.request("GET", FORBIDDEN.decode())
        self.assertEqual(direct.getresponse().status, 404)
        direct.close()
        self.assertEqual(self.count("GetModel"), before + 1)

    def test_requests_end_where_the_proxy_says(self):
        executed = self.count("GetModel")
        for name, form in all_forms().items():
            with self.subTest(name):
                answer = self.exchange(form + MARKER)
                self.assertNotIn(b"HTTP/1.1 101", answer)
                asked = self.count("GetServerInfo")
                for _ in range(OTHERS):
                    self.ask()
                self.assertGreaterEqual(self.count("GetServerInfo"), asked + OTHERS)
                self.assertEqual(self.count("GetModel"), executed, "smuggled")
                self.assertIsNone(self.server.process.poll())
        self.await_idle()
        self.assertEqual(self.count("GetModel"), executed)

    def await_idle(self):
        deadline = time.monotonic() + PATIENCE_S
        while self.server.metrics()["upscaled_requests_in_flight"] > 0:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)


@unittest.skipIf(proxies.NGINX is None, proxies.WHY_NO_NGINX)
class NginxTest(Through, unittest.TestCase):
    @classmethod
    def start_proxy(cls):
        refused = f"    location = {FORBIDDEN.decode()} {{ return 403; }}"
        cls.port = proxies.start_nginx(cls, cls.server, locations=refused, log=f"{cls.server.folder.name}/nginx.log")


@unittest.skipIf(proxies.HAPROXY is None, "no haproxy")
class HaproxyTest(Through, unittest.TestCase):
    @classmethod
    def start_proxy(cls):
        cls.port = proxies.start_haproxy(cls, cls.server, rules=f"    http-request deny if {{ path {FORBIDDEN.decode()} }}")


if __name__ == "__main__":
    if proxies.HAPROXY is None and proxies.NGINX is None:
        print(f"SKIPPED: no haproxy here; {proxies.WHY_NO_NGINX}")
        sys.exit(SKIPPED)
    UPSCALED = sys.argv[1]
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], warnings="ignore")
