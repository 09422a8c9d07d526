#!/usr/bin/env python3
"""Jobs over HTTP, with processes: jobs_test.py UPSCALED UPSCALE-WORKER [sqlite|redis|nats]

A server takes images with Prefer: respond-async, and is killed; one that is started anew tells of them, while a worker
has them upscaled. With redis and nats a broker keeps the queue; exits with 77 where there is none.
"""
import hashlib
import http.client
import json
import os
import pathlib
import secrets
import shutil
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/attack"), str(ROOT / "tests/client/worker")]
import harness
import killed_workers
import messages

SKIPPED = 77
PATIENCE_S = 120
MAX_SOURCE_BYTES = 100_000
ASYNC = {"Prefer": "wait=5, Respond-Async"}


class Stage:
    """Tenants with their keys, a queue and a store, a server that comes and goes, a worker."""

    def __init__(self, upscaled: str, worker: str, queue: str, folder: pathlib.Path) -> None:
        self.upscaled, self.worker_binary, self.folder = upscaled, worker, folder
        self.store = folder / "store"
        self.keys = {tenant: "upk_" + secrets.token_urlsafe(32) for tenant in ("ada", "bob", "worker")}
        entries = [{"name": tenant, "tenant": tenant, "roles": ["upscale"], "sha256": hashlib.sha256(key.encode()).hexdigest()}
                   for tenant, key in self.keys.items()]
        (folder / "keys.json").write_text(json.dumps({"keys": entries}))
        self.broker = killed_workers.QUEUES[queue](folder)
        self.processes = []
        self.start_server()

    def start_server(self) -> None:
        self.server = harness.Server(self.upscaled, [
            "--memory-budget=512MiB", f"--max-source-bytes={MAX_SOURCE_BYTES}", f"--auth-keys={self.folder / 'keys.json'}",
            f"--usage-db={self.folder / 'usage.db'}", f"--job-queue={self.broker.address}", f"--job-store={self.store}"])

    def start_worker(self) -> None:
        command = [self.worker_binary, "--queue", self.broker.address, "--results", self.folder / "results", "--allow-paths", self.folder,
                   "--server", "{}:{}".format(*self.server.grpc), "--quiet"]
        self.processes.append(killed_workers.spawn(command, env={**os.environ, "UPSCALE_API_KEY": self.keys["worker"]}))

    def call(self, method: str, path: str, body: bytes | None = None, tenant: str = "ada", **fields: str):
        """Status, fields by their names in lower case, body."""
        connection = http.client.HTTPConnection(*self.server.http, timeout=PATIENCE_S)
        connection.request(method, path, body, {"x-api-key": self.keys[tenant], **fields})
        answer = connection.getresponse()
        told = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        connection.close()
        return told

    def submit(self, body: bytes) -> str:
        """The job's path."""
        status, fields, told = self.call("POST", "/v1/upscale?scale=3", body, **ASYNC)
        assert status == 202, (status, told)
        assert fields["preference-applied"] == "respond-async", fields
        assert fields["location"] == "/v1/jobs/" + json.loads(told)["id"], (fields, told)
        return fields["location"]

    def job(self, path: str) -> dict:
        status, _, body = self.call("GET", path)
        assert status == 200, (status, body)
        return json.loads(body)

    def end_of(self, path: str) -> dict:
        deadline = time.monotonic() + PATIENCE_S
        while (job := self.job(path))["state"] in ("waiting", "running"):
            assert time.monotonic() < deadline, job
            time.sleep(0.05)
        return job

    def stored(self) -> set[str]:
        return {str(path.relative_to(self.store)) for path in self.store.rglob("*") if path.is_file()}

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        self.server.close()
        if hasattr(self.broker, "process"):
            self.broker.process.kill()
            self.broker.process.wait()


def check_jobs(stage: Stage) -> None:
    image = messages.png(40, 30)
    status, at_once, right = stage.call("POST", "/v1/upscale?scale=3", image)
    assert status == 200 and "preference-applied" not in at_once, at_once

    done, failed, cancelled = (stage.submit(body) for body in (image, b"no image", messages.png(20, 20)))
    stage.server.process.kill()
    stage.server.process.wait()
    stage.start_server()
    assert [stage.job(path)["state"] for path in (done, failed, cancelled)] == ["waiting"] * 3
    status, _, body = stage.call("DELETE", cancelled)
    assert (status, body) == (204, b""), (status, body)
    stage.start_worker()

    job = stage.end_of(done)
    assert (job["state"], job["result"], job["error"]) == ("done", done + "/result", None), job
    status, fields, body = stage.call("GET", job["result"])
    assert (status, fields["content-type"]) == (200, "image/png"), (status, fields)
    assert body == right
    assert stage.call("GET", job["result"], **{"If-None-Match": fields["etag"]})[0] == 304
    assert stage.call("GET", job["result"], Range="bytes=10-19")[::2] == (206, right[10:20])

    job = stage.end_of(failed)
    assert (job["state"], job["error"]["reason"], job["result"]) == ("failed", "INVALID_IMAGE", None), job
    assert stage.job(cancelled)["state"] == "cancelled"
    assert stage.call("GET", cancelled + "/result")[0] == 404

    for method, path in (("GET", done), ("GET", done + "/result"), ("DELETE", done)):
        assert stage.call(method, path, tenant="bob")[0] == 404, (method, path)
    ids = [path.rpartition("/")[2] for path in (done, failed, cancelled)]
    left = {f"{id}/tenant" for id in ids} | {f"{ids[0]}/result"}
    assert stage.stored() == left, stage.stored()
    status, _, body = stage.call("POST", "/v1/upscale", bytes(MAX_SOURCE_BYTES + 1), **ASYNC)
    assert (status, json.loads(body)["reason"]) == (413, "LIMIT_EXCEEDED"), body
    assert stage.stored() == left and len(list(stage.store.iterdir())) == len(ids)

    assert stage.call("DELETE", done)[0] == 204
    assert stage.call("GET", done + "/result")[0] == 404
    assert stage.stored() == {f"{id}/tenant" for id in ids}


def check_bills(stage: Stage) -> None:
    """Who submits pays for the call, the worker's tenant for the computation."""
    host, port = stage.server.admin
    connection = http.client.HTTPConnection(host, port, timeout=PATIENCE_S)
    connection.request("GET", "/v1/usage")
    days = json.loads(connection.getresponse().read())["usage"]
    connection.close()
    work = {tenant: sum(int(day["cost"]) for day in days if day["tenant"] == tenant) for tenant in ("ada", "worker")}
    assert work["worker"] > 0, days
    # The file may lack the last 2 s of the first server, with the image answered at once.
    assert work["ada"] in (0, work["worker"]), days


def main(upscaled: str, worker: str, queue: str = "sqlite") -> int:
    if queue != "sqlite" and not shutil.which(f"{queue}-server"):
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(upscaled, worker, queue, pathlib.Path(folder))
        try:
            check_jobs(stage)
            check_bills(stage)
        finally:
            stage.close()
    print(f"jobs over HTTP through {queue} are done, fail and are cancelled")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
