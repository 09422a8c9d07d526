#!/usr/bin/env python3
"""ONNX Runtime's results for the networks that we export, beside our reference's: onnxruntime_test.py
WRITE_ONNX_SAMPLES WORK_FOLDER. Exits with 77 where there is no node or npm."""
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "support"))
import npm

SKIPPED = 77


def main(write_samples, work):
    if shutil.which("node") is None:
        print("SKIPPED: no node")
        return SKIPPED
    why = npm.install(HERE / "onnxruntime", work / "node")
    if why:
        print("SKIPPED:", why)
        return SKIPPED
    samples = work / "samples"
    shutil.rmtree(samples, ignore_errors=True)
    samples.mkdir(parents=True)
    subprocess.run([write_samples, samples], check=True)
    return subprocess.run(["node", "run.js", samples], cwd=work / "node", check=False).returncode


sys.exit(main(sys.argv[1], pathlib.Path(sys.argv[2])))
