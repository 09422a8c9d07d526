#!/usr/bin/python3
"""One huge image over three servers of one thread each, and over one: huge_image.py UPSCALED UPSCALE [--megapixels N] [--model M]
[--model-repository DIR] [--tta]. Three runs: one server; `--spread` over three; the same with one killed when half of the tiles are done. All must give
the same bytes, or it exits with 1. Prints a table of times and CPU times, and how many times as fast three servers are as one; for
a quiet machine, as servers and client share its CPUs."""
import argparse
import filecmp
import os
import pathlib
import random
import resource
import subprocess
import sys
import tempfile
import time
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "attack"))
import harness
import messages

SERVERS = 3
EIGHT_LEVELS = bytes(value & 0xE0 for value in range(256))  # so that noise compresses below --max-source-bytes


def write_source(path, megapixels):
    """Noise: no area is flat, and all of it takes work."""
    side_px = round((megapixels * 1e6) ** 0.5)
    compressor = zlib.compressobj(level=1)
    rows = b"".join(compressor.compress(b"\0" + random.randbytes(3 * side_px).translate(EIGHT_LEVELS)) for _ in range(side_px))
    path.write_bytes(messages.png(side_px, side_px, rows + compressor.flush()))
    return side_px


def reaped_s():
    """CPU seconds of children that have been waited for, which servers are not before they are closed."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def tiles(servers):
    return sum(server.metrics()["upscaled_tiles_total"] for server in servers)


def await_tiles(process, servers, number):
    while process.poll() is None and tiles(servers) < number:
        time.sleep(0.1)
    return process.poll() is None


class Runs:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        self.whole = self.folder / "one server.png"

    def start_servers(self, number):
        flags = ["--threads=1", "--memory-budget=2GiB", *(f"--model-repository={x}" for x in self.arguments.model_repository)]
        return [harness.Server(self.arguments.upscaled, flags=flags) for _ in range(number)]

    def run(self, title, number, kill_at=None):
        """Tiles computed, seconds taken, and complaints."""
        servers = self.start_servers(number)
        try:
            before, result = tiles(servers), self.folder / f"{title}.png"
            command = [self.arguments.upscale, "image", "-i", self.folder / "in.png", "-o", result, "--png-compression=1", "--quiet",
                       f"--model={self.arguments.model}", "--server=" + ",".join("{}:{}".format(*server.grpc) for server in servers)]
            command += ["--tta"] * self.arguments.tta + ["--spread"] * (number > 1)
            begin, reaped_before_s = time.monotonic(), reaped_s()
            process = subprocess.Popen(command, preexec_fn=harness.die_with_parent)
            lost = servers[0] if kill_at is not None and await_tiles(process, servers, before + kill_at) else None
            if lost is not None:
                lost.process.kill()
            code = process.wait()
            took_s = time.monotonic() - begin
            left = [server for server in servers if server is not lost]
            servers_s, client_s = sum(server.cpu_s() for server in left), reaped_s() - reaped_before_s
            print(f"| {title} | {took_s:.1f} | {servers_s:.1f} | {client_s:.1f} |", flush=True)
            return tiles(left) - before, took_s, self.complaints(title, code, result, kill_at is not None and lost is None)
        finally:
            for server in servers:
                server.close()

    def complaints(self, title, code, result, in_vain):
        if code != 0:
            return [f"{title}: exit code {code}"]
        same = result == self.whole or filecmp.cmp(result, self.whole, shallow=False)
        if result != self.whole:
            os.unlink(result)
        return ([] if same else [f"{title}: other bytes"]) + ["it was done before a server could be killed"] * in_vain


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("upscaled")
    parser.add_argument("upscale")
    parser.add_argument("--megapixels", type=float, default=100)
    parser.add_argument("--model", default="fast-2x")
    parser.add_argument("--model-repository", action="append", default=[], help="folder of other models than the bundled ones")
    parser.add_argument("--tta", action="store_true", help="eight times the work, the same bytes to move")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(arguments, pathlib.Path(folder))
        side_px = write_source(runs.folder / "in.png", arguments.megapixels)
        print(f"{side_px}x{side_px}, {arguments.model}{', TTA' * arguments.tta}\n| | seconds | CPU seconds of the servers left | of the client |\n| --- | --- | --- | --- |")
        _, alone_s, complaints = runs.run("one server", 1)
        computed, spread_s, more = runs.run("three servers", SERVERS)
        complaints += more
        complaints += runs.run("three servers, one killed midway", SERVERS, kill_at=computed / 2)[2]
    print("\n".join(complaints) or f"the same bytes, {alone_s / spread_s:.2f} times as fast")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
