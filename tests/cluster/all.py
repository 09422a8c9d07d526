#!/usr/bin/python3
"""All that shows what many machines come to, one after the other, and a table of how each ended: all.py UPSCALED UPSCALE WORKER
[--short]. Some twenty minutes, on a quiet machine; with --short one or two, the same with less of each. Exits with 1 where one
failed; those that lack a program are skipped."""
import argparse
import pathlib
import subprocess
import sys
import time

TESTS = pathlib.Path(__file__).resolve().parents[1]
SKIPPED = 77
OUTCOMES = {0: "passed", SKIPPED: "skipped"}


def cases(upscaled, upscale, worker, short):
    """The scripts to run: a title, a script of tests/ and its arguments."""
    jobs = "40" if short else "2000"
    yield ("replicas restarted, killed and frozen under clients", "cluster/run.py", upscaled, upscale,
           *(("--seconds=1", "--clients=4", "--freeze=2") if short else ()))
    yield ("a huge image over three servers, one killed midway", "cluster/huge_image.py", upscaled, upscale, "--model=general-2x",
           *(("--megapixels=4",) if short else ()))
    for queue in ("sqlite", "redis", "nats"):
        yield f"{jobs} jobs through {queue}, workers and brokers killed", "client/worker/killed_workers.py", upscaled, upscale, worker, jobs, queue
    yield "a network that is slow, lossy and gone", "cluster/network_test.py", upscaled, upscale
    yield "autoscaling, simulated", "deploy/autoscaling_test.py"


def run(script, arguments):
    """The exit code, and the last line of what it says, all of which is passed on."""
    last = ""
    process = subprocess.Popen([sys.executable, TESTS / script, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in process.stdout:
        print(line, end="", flush=True)
        last = line.strip() or last
    return process.wait(), last


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    for program in ("upscaled", "upscale", "worker"):
        parser.add_argument(program)
    parser.add_argument("--short", action="store_true", help="less of each")
    rows = []
    for title, script, *arguments in cases(**vars(parser.parse_args())):
        print(f"== {title}: {script}", flush=True)
        begin = time.monotonic()
        code, last = run(script, arguments)
        rows.append((title, f"{time.monotonic() - begin:.0f}", OUTCOMES.get(code, f"failed ({code})"), last))
    print("\n| | seconds | | its last words |\n| --- | --- | --- | --- |")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    return 1 if any(outcome.startswith("failed") for _, _, outcome, _ in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
