#!/usr/bin/env python3
"""A server on a GPU that stops answering: hang_test.py UPSCALED STUB_GPU

The stub's second run never returns, and nothing else does that asks its driver. Within the limit of a run the server is
not ready any more, and then ends with code 4, whether it has nothing else to compute on, or another device, which takes
the run's place for all but its own tiles.
"""
import pathlib
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

import proof_test
from proof_test import Server
import messages

RUN_LIMIT_S = 120  # RunWatch::kSlack
EXIT_CODE = 4


def ask(url: str, data=None) -> str:
    """The answer's status, or why there was none."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data=data), timeout=2 * RUN_LIMIT_S + 60) as answer:
            answer.read()
            return str(answer.status)
    except urllib.error.HTTPError as error:
        return str(error.code)
    except OSError as error:
        return str(error)


def check(folder: pathlib.Path, devices: list, limit_s: float, is_left: bool) -> None:
    options = [f"--device={device}" for device in devices[1:]] + ["--drain-timeout=1s", "--lame-duck-delay=3s"]
    with Server(folder, "1", "off", keeps=False, options=options, STUB_HANGS="1") as server:
        url = f"http://{server.http}"
        assert ask(f"{url}/v2/health/ready") == "200"
        begin = time.monotonic()
        client = threading.Thread(target=ask, args=(f"{url}/v1/upscale", messages.png(40, 30)))
        client.start()
        unready_s = None
        while server.process.poll() is None and time.monotonic() < begin + limit_s + 60:
            taken_s = time.monotonic() - begin
            if unready_s is None and ask(f"{url}/v2/health/ready") != "200":
                unready_s = taken_s
            time.sleep(0.5)
        ended_s = time.monotonic() - begin
        text = server.text()
        assert server.process.poll() == EXIT_CODE, (server.process.poll(), text)
        assert "a run has not ended after" in text, text
        assert ("a call to a device does not return" in text) == is_left, text
        assert unready_s is not None and limit_s - 10 < unready_s < ended_s < limit_s + 40, (unready_s, ended_s, text)
        client.join()


def main() -> int:
    upscaled, stub = map(pathlib.Path, sys.argv[1:])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        proof_test.install(folder, stub, upscaled)
        failures = []

        def run(*arguments) -> None:
            try:
                check(*arguments)
            except AssertionError as error:
                failures.append(error)

        tests = [threading.Thread(target=run, args=(folder, ["cuda:0"], RUN_LIMIT_S, False)),
                 threading.Thread(target=run, args=(folder, ["cuda:0", "cpu"], 2 * RUN_LIMIT_S, True))]
        for test in tests:
            test.start()
        for test in tests:
            test.join()
        assert not failures, failures
    return 0


if __name__ == "__main__":
    sys.exit(main())
