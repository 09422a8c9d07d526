#!/usr/bin/env python3
"""Runs the curl commands of docs/http-api.md against a server: readme_curl_test.py UPSCALED

Each line of that page that calls /v1 over HTTP runs in a folder with the files that it names; what it writes must be
what the line promises.
"""
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

from local_server import LocalServer

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/http-api.md").read_text()
COMMANDS = re.findall(r"^curl .*localhost:8000/v1/.*$", PAGE, re.M)


def png_size(data: bytes) -> tuple[int, int]:
    assert data.startswith(b"\x89PNG\r\n\x1a\n"), data[:16]
    return struct.unpack(">II", data[16:24])


def jpeg_size(data: bytes) -> tuple[int, int]:
    at = 2
    while True:
        marker, length = struct.unpack(">HH", data[at:at + 4])
        if 0xFFC0 <= marker <= 0xFFC2:
            height, width = struct.unpack(">HH", data[at + 5:at + 9])
            return width, height
        at += 2 + length


def main() -> int:
    assert len(COMMANDS) >= 8, COMMANDS
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        server = LocalServer(sys.argv[1], f"--job-queue={folder}/queue", f"--job-store={folder}/jobs")
        try:
            def run(command: str) -> bytes:
                command = command.replace("localhost:8000", server.http)
                done = subprocess.run(command, shell=True, cwd=work, capture_output=True, timeout=600)
                assert done.returncode == 0, (command, done)
                return done.stdout

            run(f"curl -sf 'localhost:8000/v1/upscale?scale=1&width=&format=jpeg' --data-binary "
                f"@{ROOT}/deploy/demo/sample.png -o cat.jpg")
            (work / "notes.txt").write_text("no image\n")
            width, height = jpeg_size((work / "cat.jpg").read_bytes())
            outputs = [run(command) for command in COMMANDS]

            assert jpeg_size((work / "cat-2x.jpg").read_bytes()) == (2 * width, 2 * height)
            assert (work / "cat-4k.webp").read_bytes()[8:12] == b"WEBP"
            assert jpeg_size((work / "cat-3x.jpg").read_bytes()) == (3 * width, 3 * height)
            assert png_size((work / "cat-2x.png").read_bytes()) == (2 * width, 2 * height)
            assert (work / "same.txt").read_bytes() == (work / "notes.txt").read_bytes()
            events = [output for output in outputs if output.startswith(b"event:")]
            assert len(events) == 1 and b"event: done" in events[0], events
            answers = [json.loads(output) for output in outputs if output and output not in events]
            assert [set(answer) & {"accepted", "reason", "state", "models"} for answer in answers] == \
                [{"reason"}, {"accepted"}, {"state"}, {"models"}], answers
            assert answers[1]["source"] == {"width_px": width, "height_px": height, "format": "jpeg"}
            assert answers[0]["status"] == 422 and answers[0]["reason"] == "INVALID_IMAGE"
            assert answers[2]["state"] == "waiting"
        finally:
            server.stop()
    print(f"{len(COMMANDS)} commands do what docs/http-api.md says")
    return 0


if __name__ == "__main__":
    sys.exit(main())
