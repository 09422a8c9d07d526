#!/usr/bin/env python3
"""A server on a GPU with kernels that no device has run: proof_test.py UPSCALED UPSCALED_PROVE UPSCALE STUB_GPU

The stub's kernels compute wrongly, hang, crash, are slow, or are right. Each is struck off by name and with its reason,
except the right one, and the server serves. The record survives a restart, and counts with --tune=off. Another driver proves
anew, and so does another build of the plugin, which also names its results otherwise. A proof ends with the server.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/attack")]
import messages

REASONS = {"crashes": ("crashed", "signal 6"), "good": ("proven", ""), "hangs": ("hung", "nothing for 10s"),
           "slow": ("slow", "the shipped kernels are faster"), "wrong": ("wrong", "differs by up to 0.25")}


class Server:
    """The program in `folder`, on the stub. Ends with the block. `options` are flags."""

    def __init__(self, folder: pathlib.Path, driver: str, tune: str = "fast", keeps: bool = True, options=(), **environment: str):
        self.log = tempfile.TemporaryFile("w+", dir=folder)
        self.process = subprocess.Popen(
            [folder / "bin/upscaled", "--device=cuda:0", f"--tune={tune}", *([f"--tune-file={folder}/tune.json"] if keeps else []), "--listen=127.0.0.1:0",
             "--http=127.0.0.1:0", "--admin=off", f"--model-repository={ROOT}/engine/model/bundled", *options],
            stdout=self.log, stderr=subprocess.STDOUT, env={**os.environ, "STUB_DRIVER": driver, **environment})

    def __enter__(self):
        while " info ready " not in self.text():
            assert self.process.poll() is None, self.text()
            time.sleep(0.05)
        self.address, self.http = re.search(r"grpc=(\S+) http=(\S+)", self.text()).groups()
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


def result_name(server: Server, image: bytes) -> str:
    with urllib.request.urlopen(urllib.request.Request(f"http://{server.http}/v1/upscale", data=image), timeout=60) as answer:
        return answer.headers["ETag"]


def plugins(folder: pathlib.Path) -> list:
    return [folder / at / "upscaled/libupscaled_cuda.so" for at in ("lib", "lib/x86_64-linux-gnu")]


def install(folder: pathlib.Path, stub: pathlib.Path, *programs: pathlib.Path) -> None:
    """Programs look for plugins from their own folder."""
    (folder / "bin").mkdir()
    for program in programs:
        shutil.copy2(program, folder / "bin")
    for plugin in plugins(folder):
        plugin.parent.mkdir(parents=True)
        shutil.copy2(stub, plugin)


def rebuild(plugin: pathlib.Path) -> None:
    """Gives the plugin another build id, as a change of its code does."""
    code = plugin.read_bytes()
    (note,) = re.finditer(rb"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0(.{20})", code, re.DOTALL)
    plugin.unlink()
    plugin.write_bytes(code[:note.start(1)] + bytes(20) + code[note.end(1):])


def check_end_during_proof(folder: pathlib.Path) -> None:
    """Neither a stop nor a death of the server leaves a process behind."""
    for stop in (signal.SIGTERM, signal.SIGKILL):
        server = Server(folder, f"driver of {stop}")
        children = pathlib.Path(f"/proc/{server.process.pid}/task")

        def prover():
            for children_of in children.glob("*/children"):
                for child in children_of.read_text().split():
                    if b"\0hangs\0" in pathlib.Path(f"/proc/{child}/cmdline").read_bytes():
                        return pathlib.Path(f"/proc/{child}")
            return None

        while not (found := prover()):
            assert server.process.poll() is None, server.text()
            time.sleep(0.05)
        server.process.send_signal(stop)
        server.process.wait(timeout=5)
        for _ in range(100):
            if not found.exists() or "State:\tZ" in (found / "status").read_text():
                break
            time.sleep(0.05)
        else:
            raise AssertionError(f"{stop} leaves a prover")


def main() -> int:
    upscaled, prove, upscale, stub = map(pathlib.Path, sys.argv[1:])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        install(folder, stub, upscaled, prove)
        check_end_during_proof(folder)
        source = folder / "source.png"
        source.write_bytes(messages.png(40, 30))
        with Server(folder, "1") as server:
            check_verdicts(upscale, server)
            run(upscale, "image", "-i", source, "-o", folder / "result.png", "--server", server.address)
            first_name = result_name(server, source.read_bytes())
        assert (folder / "result.png").stat().st_size > 0

        # The record counts without another proof, and with the shipped order of kernels.
        (folder / "bin/upscaled-prove").unlink()
        for tune in ("fast", "off"):
            with Server(folder, "1", tune) as server:
                check_verdicts(upscale, server)
                assert result_name(server, source.read_bytes()) == first_name
        # Without a place for the record nothing proves itself, and the server says so.
        with Server(folder, "1", "off", keeps=False) as server:
            assert verdicts(upscale, server) == [("unproven", "no record lies next to --tune-file")] * len(REASONS)
        # Another driver has no record, and nothing to prove with is no proof.
        with Server(folder, "2") as server:
            assert [verdict for verdict, _ in verdicts(upscale, server)] == ["failed"] * len(REASONS)
        # Nor has another plugin.
        for plugin in plugins(folder):
            rebuild(plugin)
        with Server(folder, "1") as server:
            assert [verdict for verdict, _ in verdicts(upscale, server)] == ["failed"] * len(REASONS)
            assert result_name(server, source.read_bytes()) != first_name
    return 0


if __name__ == "__main__":
    sys.exit(main())
