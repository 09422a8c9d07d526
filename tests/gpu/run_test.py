#!/usr/bin/env python3
"""Runs run.sh --kernels on a machine without a GPU, with programs that say what real ones would.

Shows that the script reaches its end, whatever kernels do: right, wrong, a crash, or nothing installed.
"""
import os
import pathlib
import subprocess
import tarfile
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
BENCH = """#!/bin/sh
echo '{"device": "stub"}'
for m in rrdb srvgg; do
  echo "{\\"model\\": \\"random:$m\\", \\"precision\\": \\"fast\\", \\"seconds\\": 0.001, \\"gflops\\": 1, \\"memory_mib\\": 1, \\"image\\": [1, 1], \\"steps\\": [{\\"layer\\": \\"a\\", \\"shape\\": \\"b\\", \\"kernel\\": \\"conv3x3_wgmma\\", \\"seconds\\": 0.001, \\"gflops\\": 1}]}"
done
"""
PROBES = """#!/bin/sh
[ "$1" = --list ] || { echo "{\\"case\\": \\"$1\\"}"; exit 0; }
printf 'probe_a\\nproducts_256\\nboxes_10x18\\nPing32_64-64_123x77_n2\\nPing27_64-64_960x540\\n'
"""
PROVEN = '#!/bin/sh\necho "{\\"kernel\\": \\"$2\\", \\"verdict\\":\\"proven\\", \\"speed\\": 2}"\n'
SMI = '#!/bin/sh\ncase $* in *compute_cap*) echo 9.0 ;; *) echo "GPU 0: a stub" ;; esac\n'
NOTHING = "#!/bin/sh\nexit 0\n"


class RunTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def run_kernels(self, prover=PROVEN, tools=("ncu", "compute-sanitizer")):
        """Returns the exit status, what it said, and the names in logs.tgz."""
        for name, text in {"cuda-bench": BENCH, "ws-bench": PROBES, "upscaled-prove": prover}.items():
            self.write(f"bundle/bin/{name}", text)
        self.write("bundle/tests/cuda_device_kernel_tests", NOTHING)
        self.write("path/nvidia-smi", SMI)
        self.write("path/python3", f"#!/bin/sh\ncase $* in *torch_bench*) exit 77 ;; esac\nexec {os.sys.executable} \"$@\"\n")
        for tool in tools:
            self.write(f"path/{tool}", NOTHING)
        bundle = self.folder / "bundle.tgz"
        with tarfile.open(bundle, "w:gz") as archive:
            archive.add(self.folder / "bundle", ".")
        out = self.folder / "out"
        path = f"{self.folder / 'path'}:/usr/bin:/bin"
        done = subprocess.run([HERE / "run.sh", "--bundle", bundle, "--kernels"], text=True, capture_output=True,
                              env={**os.environ, "OUT": str(out), "PATH": path})
        with tarfile.open(out / "logs.tgz") as archive:
            logs = {pathlib.Path(name).name for name in archive.getnames()}
        self.assertTrue((out / "table.md").exists())
        return done.returncode, done.stdout + done.stderr, logs

    def test_all_is_well(self):
        status, said, logs = self.run_kernels()
        self.assertEqual(status, 0, said)
        wanted = {"probes.jsonl", "prove-half_epilogue.jsonl", "prove-conv3x3_ws.jsonl", "cuda.jsonl", "cuda-half_epilogue.jsonl",
                  "cuda-conv3x3_ws.jsonl", "ncu-Conv3x3Ws.txt", "sanitizer-racecheck-fast_conv3x3_ws.log", "torch.jsonl"}
        self.assertLessEqual(wanted, logs, said)
        self.assertIn("5 cases, 0 with an error", said)
        self.assertIn("random:rrdb: 1.000 ms, 1.000 ms, 1.00 times as fast", said)

    def test_a_kernel_that_is_wrong_or_crashes_ends_alone(self):
        for prover in ('#!/bin/sh\necho "{\\"verdict\\":\\"wrong\\"}"\n', "#!/bin/sh\nkill -SEGV $$\n"):
            status, said, logs = self.run_kernels(prover)
            self.assertEqual(status, 1, said)
            self.assertIn("FAILED: upscaled-prove conv3x3_ws", said)
            self.assertIn("cuda.jsonl", logs)
            self.assertNotIn("cuda-conv3x3_ws.jsonl", logs)

    def test_tools_that_are_missing_are_left_out(self):
        status, said, _ = self.run_kernels(tools=())
        self.assertEqual(status, 0, said)
        self.assertIn("not installed: left out", said)


if __name__ == "__main__":
    unittest.main()
