#!/usr/bin/env python3
"""A server on a GPU with kernels that no device has run: proof_test.py UPSCALED UPSCALED_PROVE UPSCALE STUB_GPU

The stub's kernels compute wrongly, hang, crash, are slow, or are right. Each is struck off by name and with its reason,
except the right one, and the server serves. The record survives a restart, and counts with --tune=off. Another driver proves anew.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/attack")]
import messages

REASONS = {"crashes": ("crashed", "signal 6"), "good": ("proven", ""), "hangs": ("hung", "nothing for 10s"),
           "slow": ("slow", "the shipped kernels are faster"), "wrong": ("wrong", "differs by up to 0.25")}


class Server:
    """The program in `folder`, on the stub. Ends with the block."""

    def __init__(self, folder: pathlib.Path, driver: str, tune: str = "fast", keeps: bool = True):
        self.log = (folder / "log").open("w+")
        self.process = subprocess.Popen(
            [folder / "bin/upscaled", "--device=cuda:0", f"--tune={tune}", *([f"--tune-file={folder}/tune.json"] if keeps else []), "--listen=127.0.0.1:0",
             "--http=off", "--admin=off", f"--model-repository={ROOT}/engine/model/bundled"],
            stdout=self.log, stderr=subprocess.STDOUT, env={**os.environ, "STUB_DRIVER": driver})

    def __enter__(self):
        while " info ready " not in self.text():
            assert self.process.poll() is None, self.text()
            time.sleep(0.05)
        self.address = re.search(r"grpc=(\S+)", self.text())[1]
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=60)

    def text(self) -> str:
        self.log.seek(0)
        return self.log.read()


def run(*command) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, (command, done.stderr[-2000:])
    return done.stdout.decode()


def check_verdicts(upscale: str, server: Server) -> None:
    (device,) = json.loads(run(upscale, "info", "--server", server.address, "--json"))["devices"]
    told = {kernel["kernel"]: kernel for kernel in device["kernels"]}
    assert told.keys() == REASONS.keys(), told
    text = run(upscale, "devices", "--server", server.address)
    for kernel, (verdict, reason) in REASONS.items():
        assert told[kernel]["verdict"] == verdict and reason in told[kernel]["reason"], told[kernel]
        assert f"kernel  {kernel}: {verdict}" in text, text
        assert verdict in next(line for line in server.text().splitlines() if f"kernel={kernel}" in line), server.text()
    assert told["good"]["times_as_fast"] == 2 and told["slow"]["times_as_fast"] == 0.5, told
    assert "good: proven, 2.00 times as fast" in text, text


def verdicts(upscale: pathlib.Path, server: Server) -> list:
    (device,) = json.loads(run(upscale, "info", "--server", server.address, "--json"))["devices"]
    return [(kernel["verdict"], kernel["reason"]) for kernel in device["kernels"]]


def main() -> int:
    upscaled, prove, upscale, stub = map(pathlib.Path, sys.argv[1:])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        # Programs look for plugins from their own folder.
        (folder / "bin").mkdir()
        for program in (upscaled, prove):
            shutil.copy2(program, folder / "bin")
        plugins = folder / "lib/upscaled"
        for at in (plugins, folder / "lib/x86_64-linux-gnu/upscaled"):
            at.mkdir(parents=True)
            shutil.copy2(stub, at / "libupscaled_cuda.so")
        source = folder / "source.png"
        source.write_bytes(messages.png(40, 30))
        with Server(folder, "1") as server:
            check_verdicts(upscale, server)
            run(upscale, "image", "-i", source, "-o", folder / "result.png", "--server", server.address)
        assert (folder / "result.png").stat().st_size > 0

        # The record counts without another proof, and with the shipped order of kernels.
        (folder / "bin/upscaled-prove").unlink()
        for tune in ("fast", "off"):
            with Server(folder, "1", tune) as server:
                check_verdicts(upscale, server)
        # Without a place for the record nothing proves itself, and the server says so.
        with Server(folder, "1", "off", keeps=False) as server:
            assert verdicts(upscale, server) == [("unproven", "no record lies next to --tune-file")] * len(REASONS)
        # Another driver has no record, and nothing to prove with is no proof.
        with Server(folder, "2") as server:
            assert [verdict for verdict, _ in verdicts(upscale, server)] == ["failed"] * len(REASONS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
