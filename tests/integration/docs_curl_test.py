#!/usr/bin/env python3
"""Runs each command that /docs shows, as a reader would paste it: docs_curl_test.py UPSCALED UPSCALE UPSCALE-WORKER

Only the addresses and the identifiers of the page are replaced by those of this test.
"""
import functools
import html
import http.server
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import uuid

from local_server import LocalServer

ROOT = pathlib.Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "deploy/demo/sample.png"
PATIENCE_S = 120


class Images(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_) -> None:
        pass


def main() -> int:
    upscaled, upscale, worker = sys.argv[1:4]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        work, images = folder / "work", folder / "images"
        work.mkdir()
        images.mkdir()
        host = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Images, directory=images))
        threading.Thread(target=host.serve_forever, daemon=True).start()
        origin = f"http://127.0.0.1:{host.server_port}"
        key, _, entry = subprocess.run([upscaled, "keys", "url", "--id", "docs"], capture_output=True, text=True,
                                       check=True).stdout.partition("\n")
        (folder / "url-keys.json").write_text(json.dumps({"keys": [json.loads(entry)]}))
        server = LocalServer(
            upscaled, f"--job-queue={folder}/queue", f"--job-store={folder}/jobs", f"--result-cache={folder}/results",
            f"--usage-db={folder}/usage.db", f"--fetch-allow-private={origin}/", f"--url-keys={folder}/url-keys.json", admin="127.0.0.1:0")
        worker_process = None
        try:
            base = f"http://{server.http}"
            page = urllib.request.urlopen(f"{base}/docs", timeout=PATIENCE_S).read().decode()
            commands = [html.unescape(text) for text in re.findall(r"<pre><code>(.*?)</code></pre>", page, re.S)]

            def ask(path: str, body: bytes | None = None, **fields: str):
                request = urllib.request.Request(base + path, body, {name.replace("_", "-"): value for name, value in fields.items()})
                with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                    return dict(answer.headers), answer.read()

            # A reader has by then an image, a call, its result, and a finished job.
            request_id = str(uuid.uuid4())
            _, jpeg = ask("/v1/upscale?scale=1&format=jpeg", SAMPLE.read_bytes())
            for place in (work, images):
                (place / "cat.jpg").write_bytes(jpeg)
            fields, result = ask(f"/v1/upscale?request_id={request_id}", jpeg)
            _, accepted = ask("/v1/upscale", jpeg, Prefer="respond-async")
            job = json.loads(accepted)["id"]
            worker_process = subprocess.Popen(
                [worker, "--queue", folder / "queue", "--results", folder / "done", "--allow-paths", folder, "--allow-private-urls",
                 origin, "--server", server.grpc, "--quiet"])
            _, batch = ask("/v1/jobs", json.dumps({"jobs": [{"url": f"{origin}/cat.jpg"}]}).encode(),
                           Content_Type="application/json")
            deadline = time.monotonic() + PATIENCE_S
            while json.loads(ask(f"/v1/jobs/{job}")[1])["state"] not in ("done", "failed"):
                assert time.monotonic() < deadline, "the job does not end"
                time.sleep(0.2)

            # A job's end removes it, so its other commands come first.
            commands.sort(key=lambda command: "-X DELETE" in command)
            for command in commands:
                path = re.search(r"/v1/(\w+)/\{", command)
                ids = {"jobs": job, "results": fields["ETag"].strip('"')}
                text = command.replace("localhost:8000", server.http).replace("localhost:8002", server.admin)
                text = text.replace("https://images.example.com", origin).replace("{request_id}", request_id)
                text = text.replace("{batch}", json.loads(batch)["batch"])
                text = text.replace("{id}", ids.get(path[1], "") if path else "")
                text = text.replace("$(upscale ", f"$({shlex.quote(upscale)} ")
                if "{request_id}" in command:  # is told while it runs, and for 10 s afterwards
                    ask(f"/v1/upscale?request_id={request_id}", jpeg)
                (work / "cat-2x.jpg").unlink(missing_ok=True)
                done = subprocess.run(text, shell=True, cwd=work, capture_output=True, timeout=PATIENCE_S,
                                      env={"PATH": "/usr/bin:/bin", "UPSCALE_URL_KEY": key})
                assert done.returncode == 0, (command, text, done)
                if " -o " in command:
                    file = work / command.rpartition(" -o ")[2]
                    assert len(file.read_bytes()) > 1000, command
                elif "-X DELETE" not in command:
                    told = re.match(rb'\{|HTTP/1.1 200|(?s:.*)(event: done|"state":"done")', done.stdout)
                    assert told, (command, done)
            assert len(commands) >= 16 and len(result) > 1000, commands
        finally:
            if worker_process is not None:
                worker_process.terminate()
                worker_process.wait(timeout=PATIENCE_S)
            server.stop()
            host.shutdown()
    print(f"{len(commands)} commands of /docs do what they say")
    return 0


if __name__ == "__main__":
    sys.exit(main())
