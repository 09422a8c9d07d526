#!/usr/bin/env python3
"""Networks as PyTorch exports them to ONNX, beside its own results: exported_test.py COMPARE_EXPORTS [OPSET...]. Exits
with 77 where there is no PyTorch."""
import pathlib
import random
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77


def main(compare, operator_sets):
    with tempfile.TemporaryDirectory() as folder:
        seed = random.randrange(1 << 30)
        print("seed", seed, flush=True)
        command = ["/usr/bin/python3", "-B", "-W", "ignore", HERE / "exported_networks.py", folder, str(seed)]
        written = subprocess.run(command + operator_sets, check=False).returncode
        if written != 0:
            return written
        return max(subprocess.run([compare, folder, device], check=False).returncode for device in ("reference", "cpu"))


sys.exit(main(sys.argv[1], sys.argv[2:]))
