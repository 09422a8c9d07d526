"""A server that answers as the model in a request's query says."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


class FakeServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.calls: list = []  # (path, query, headers, body)
        self.busy_listeners = 0  # of requests called "busy", which are refused twice
        self.asked: dict = {}  # how often, by job
        self.cancelled: set = set()
        self.gone = threading.Event()  # the client of an endless answer has gone
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    # Jobs end when they have been asked for three times: "ok" is done, others fail; DELETE cancels.
    # The second question about "refused" is, and then it is done.
    def _job(self):
        job_id = self.path.split("/")[3]
        size = {"width_px": 20, "height_px": 10}
        if self.path.endswith("/result"):
            fields = {"ETag": '"abc"', "Upscale-Warning": '"alpha is left out"'}
            self._begin(200, {"Content-Type": "image/png", **fields})
            self._chunk(b"an image")
            self._chunk(b"")
            return
        if self.path.endswith("/events"):
            self._begin(200, {"Content-Type": "text/event-stream"})
            for event, data in (
                ("state", {"id": job_id, "state": "running"}),
                ("tiles", {"tiles_done": 1, "tiles": 2}),
                ("state", {"id": job_id, "state": "done", "size": size}),
            ):
                self._chunk(f"event: {event}\ndata: {json.dumps(data)}\n\n".encode())
            self._chunk(b"")
            return
        asked = self.server.asked[job_id] = self.server.asked.get(job_id, 0) + 1
        job = {"id": job_id, "state": "running", "progress": {"tiles_done": 1, "tiles": 2}}
        if job_id == "refused" and asked == 2:
            self._json(429, {"reason": "OVERLOADED", "retry_after_seconds": 0.01})
            return
        if job_id in self.server.cancelled:
            job = {"id": job_id, "state": "cancelled"}
        elif asked > 2 and job_id in ("ok", "refused"):
            webhook = {"state": "waiting", "tries": 1, "error": "the answer was 500"}
            job = {"id": job_id, "state": "done", "size": size, "webhook": webhook}
            job["warnings"] = ["alpha is left out"]
        elif asked > 2 and job_id != "waits":
            error = {"code": "INVALID_ARGUMENT", "reason": "INVALID_IMAGE", "message": "no image"}
            job = {"id": job_id, "state": "failed", "error": error}
        self._json(200, job)

    def _jobs(self):
        self.server.calls.append((self.path, {}, {}, b""))
        first = "before=" in self.path
        page = [{"id": "first" if first else "second", "state": "waiting"}]
        self._json(200, {"jobs": page, "next": None if first else "/v1/jobs?before=second"})

    def do_DELETE(self):
        self.server.cancelled.add(self.path.split("/")[3])
        self.send_response(204)
        self.end_headers()

    def do_GET(self):
        if self.path.startswith("/v1/jobs"):
            self._job() if self.path.startswith("/v1/jobs/") else self._jobs()
            return
        if self.path.startswith("/v1/progress/"):
            self._begin(200, {"Content-Type": "text/event-stream"})
            if self.path.endswith("busy"):
                self.server.busy_listeners += 1
                if self.server.busy_listeners < 3:
                    self._chunk(
                        b'event: failed\ndata: {"reason":"OVERLOADED","detail":"full"}\n\n'
                    )
                    self._chunk(b"")
                    return
            self._chunk(b": a comment\n\nevent: started\ndata: {}\n\n")
            self._chunk(b'event: tiles\r\ndata: {"tiles_done":1,\r\ndata: "tiles":2}\r\n\r\n')
            last = "failed" if self.path.endswith("ffff") else "done"
            self._chunk(
                b'event: %s\ndata: {"reason":"DEVICE_FAILURE","detail":"it burns"}\n\n'
                % last.encode()
            )
            self._chunk(b"")
        elif self.path == "/v1/models":
            self._json(200, {"models": [{"name": "m"}]})
        else:
            self._json(404, {"detail": "nothing here"})

    def do_POST(self):
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        model = query.get("model", "echo")
        if model == "limit":  # refused before the body is read
            metadata = {"limit": "max-source-bytes", "value": "9", "maximum": "8"}
            problem = {
                "reason": "LIMIT_EXCEEDED",
                "detail": "9 bytes",
                "metadata": metadata,
                "request_id": "r",
            }
            self._json(413, problem, {"Connection": "close"})
            return
        body = self._body()
        self.server.calls.append((url.path, query, dict(self.headers), body))
        if url.path == "/v1/jobs":
            self._json(202, {"batch": "b", "jobs": [{"id": "ok", "state": "waiting", "batch": "b"}]})
            return
        if self.headers.get("Prefer") == "respond-async" and model != "none":
            job_id = "bad" if model == "bad" else "ok"
            self._json(
                202, {"id": job_id, "state": "waiting", "reference": query.get("reference")}
            )
            return
        if model.startswith("busy") and len(self.server.calls) < 3:
            if query.get("request_id") == "busy":
                deadline = time.monotonic() + 10
                while (
                    self.server.busy_listeners < len(self.server.calls)
                    and time.monotonic() < deadline
                ):
                    time.sleep(0.01)
            self._json(429, {"reason": "OVERLOADED", "detail": "full"}, {"Retry-After": "0"})
            return
        if model == "full" and sum(call[1].get("model") == "full" for call in self.server.calls) < 4:
            self._json(429, {"reason": "OVERLOADED", "retry_after_seconds": 0.01})
            return
        self._begin(
            200,
            {
                "Content-Type": "image/png",
                "X-Request-Id": query.get("request_id", ""),
                "Upscale-Model": model,
            },
        )
        self._chunk(body[:10])
        if model.endswith("broken"):
            self.close_connection = True
            return
        if model == "endless":
            with contextlib.suppress(OSError):
                while True:
                    self._chunk(bytes(65536))
            self.server.gone.set()
            self.close_connection = True
            return
        self._chunk(body[10:])
        if body[10:]:
            self._chunk(b"")

    def _body(self):
        if "Content-Length" in self.headers:
            return self.rfile.read(int(self.headers["Content-Length"]))
        body = b""
        while True:
            size = int(self.rfile.readline() or b"0", 16)  # A client that has gone sends no end.
            body += self.rfile.read(size)
            self.rfile.readline()
            if not size:
                return body

    def _begin(self, status, headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _json(self, status, value, headers=None):
        body = json.dumps({**value, "status": status}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/problem+json")
        self.send_header("Content-Length", str(len(body)))
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(body)
