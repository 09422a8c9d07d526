#!/usr/bin/env python3
"""Packs bundle.sh's file and runs run.sh over it on a machine without a GPU, with programs that say what real ones would.

Shows that the scripts reach their end, whatever kernels do: right, wrong, a crash, or nothing installed.
"""
import json
import os
import pathlib
import subprocess
import tarfile
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
NEW_KERNELS = ("half_epilogue", "conv3x3_ws", "thin_ws", "enlarge_ws", "folded_gates")
BENCH = """#!/bin/sh
echo '{"device": "stub"}'
for m in rrdb srvgg; do
  echo "{\\"model\\": \\"random:$m\\", \\"precision\\": \\"fast\\", \\"seconds\\": 0.001, \\"gflops\\": 1, \\"memory_mib\\": 1, \\"image\\": [1, 1], \\"steps\\": [{\\"layer\\": \\"a\\", \\"shape\\": \\"b\\", \\"kernel\\": \\"conv3x3_wgmma\\", \\"seconds\\": 0.001, \\"gflops\\": 1}]}"
done
"""
PROBED = [  # what the prototype says of a case
    {"case": "probe_a", "wrong": 0, "first": ""},
    {"case": "products_256_pitch160", "n": 256, "tflops": 600.0},
    {"case": "products_128_pitch160", "n": 128, "tflops": 590.0},
    {"case": "boxes_10x18", "box": [10, 18], "ns_a_box": 200},
    {"case": "Ping32_64-64_123x77_n2_d0", "wrong": 1, "us": 8.0, "tflops": 10.0},
    {"case": "Ping25_64-64_480x270_n1_d0", "wrong": 0, "us": 20.0, "tflops": 500.0},
    {"case": "Ping25_64-64_480x270_n1_d1", "wrong": 0, "us": 16.0, "tflops": 520.0},
    {"case": "Pair23_96-32_480x270_n1_d0", "wrong": 0, "us": 20.0, "tflops": 350.0},
    {"case": "Ping27_128-128_964x544_n1_d0", "wrong": 0, "us": 100.0, "tflops": 500.0},
    {"case": "Ping27Half_128-128_964x544_n1_d0", "wrong": 0, "us": 105.0, "tflops": 480.0},
]
PROBES = "#!/bin/sh\ncase $1 in\n--list) printf '" + "".join(f"{p['case']}\\n" for p in PROBED) + "' ;;\n" + \
    "".join(f"{p['case']}) echo '{json.dumps(p)}' ;;\n" for p in PROBED) + "esac\n"
PROVEN = '#!/bin/sh\necho "{\\"kernel\\": \\"$2\\", \\"verdict\\":\\"proven\\", \\"speed\\": 2}"\n'
SMI = "#!/bin/sh\ncase $* in\n*compute_cap*) echo 9.0 ;;\n*clocks.max*) printf 'name, clocks.max.sm [MHz]\\na stub, 1980 MHz\\n' ;;\n*) echo 'GPU 0: a stub' ;;\nesac\n"
NOTHING = "#!/bin/sh\nexit 0\n"
TESTS = """#!/bin/sh
case $* in
  *list_tests*) printf 'Kernels/CudaConvKernelTest.\\n  Kernels/fast_conv3x3_wgmma  # a case\\n  Kernels/fast_thin_ws\\n' ;;
  *) echo 'conv3x3_wgmma: 5 of the tested layers'; echo '[  PASSED  ] 1 test.' ;;
esac
"""
SERVER = """#!/bin/sh
trap 'exit 0' TERM
echo 'level=info msg=" ready " address=127.0.0.1:1'
while :; do sleep 0.1; done
"""
LOAD = """#!/bin/sh
echo '{"requests_per_s": 1, "latency_ms": {"p50": 1, "p99": 2}, "errors":{}}'
"""
TORCH = '{"model": "random:rrdb", "precision": "fast", "seconds": 0.002}'
PROGRAMS = {"cuda-bench": BENCH, "upscaled-prove": PROVEN, "upscaled": SERVER, "upscale": LOAD, "upscale-train": "#!/bin/sh\necho a ok\n"}
TEST_PROGRAMS = [f"cuda_{name}_tests" for name in ("driver", "device_kernel", "image", "backend", "conformance", "pipeline", "golden")]


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

    def environment(self, **more):
        return {**os.environ, "PATH": f"{self.folder / 'path'}:/usr/bin:/bin", "UPSCALED_TEST_MODELS": str(self.folder / "shared"), **more}

    def pack(self, prover=PROVEN):
        """A bundle of a build folder, by bundle.sh; returns its path."""
        for name, text in {**PROGRAMS, "upscaled-prove": prover}.items():
            self.write(f"build/bin/{name}", text)
        for name in TEST_PROGRAMS:
            self.write(f"build/tests/{name}", TESTS)
        self.write("build/lib/upscaled/libupscaled_cuda.so", "a plugin")
        self.write("elsewhere/libneeded.so.1", "a library")
        self.write("shared/golden/index.json", "{}")
        self.write("path/ldd", f"#!/bin/sh\necho 'libneeded.so.1 => {self.folder}/elsewhere/libneeded.so.1 (0x1)'\n"
                               "echo 'libc.so.6 => /lib/libc.so.6 (0x2)'\n")
        self.write("path/strip", NOTHING)
        # Stands for the prototype's probes, which it would compile.
        self.write("shared/prototype/gpu-ws/bench.cu", "")
        self.write("probes", PROBES)
        self.write("path/nvcc", f"#!/bin/sh\nwhile [ $# -gt 1 ]; do [ $1 != -o ] || cp {self.folder}/probes $2; shift; done\n")
        bundle = self.folder / "bundle.tgz"
        done = subprocess.run([HERE / "bundle.sh", self.folder / "build", bundle], text=True, capture_output=True, env=self.environment())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return bundle

    def run_bundle(self, *flags, prover=PROVEN, tools=("ncu", "compute-sanitizer")):
        """Returns the exit status, what it said, and the names in logs.tgz."""
        bundle = self.pack(prover)
        self.write("path/nvidia-smi", SMI)
        self.write("path/python3", f"#!/bin/sh\ncase $* in *torch_bench*) echo '{TORCH}'; exit 0 ;; esac\nexec {os.sys.executable} \"$@\"\n")
        for tool in tools:
            self.write(f"path/{tool}", NOTHING)
        out = self.folder / "out"
        done = subprocess.run([HERE / "run.sh", "--bundle", bundle, *flags], text=True, capture_output=True, env=self.environment(OUT=str(out)))
        with tarfile.open(out / "logs.tgz") as archive:
            logs = {pathlib.Path(name).name for name in archive.getnames()}
        self.table = (out / "table.md").read_text()
        return done.returncode, done.stdout + done.stderr, logs

    def test_a_bundle_has_what_the_run_needs(self):
        with tarfile.open(self.pack()) as archive:
            names = {name.removeprefix("./") for name in archive.getnames()}
        wanted = {f"bin/{name}" for name in PROGRAMS} | {f"tests/{name}" for name in TEST_PROGRAMS}
        wanted |= {"bin/ws-bench", "lib/libneeded.so.1", "lib/upscaled/libupscaled_cuda.so", "shared/golden/index.json", "commit"}
        self.assertLessEqual(wanted, names)
        self.assertNotIn("lib/libc.so.6", names)

    def test_all_is_well(self):
        status, said, logs = self.run_bundle("--kernels")
        self.assertEqual(status, 0, said)
        wanted = {"probes.jsonl", "card.txt", "cuda.jsonl", "ncu-Conv3x3Ws.txt", "ncu-Conv3x3Wgmma.txt", "torch.jsonl"}
        for kernel in NEW_KERNELS:
            wanted |= {f"prove-{kernel}.jsonl", f"cuda-{kernel}.jsonl"}
        for tool in ("memcheck", "racecheck", "synccheck"):
            wanted |= {f"sanitizer-{tool}-fast_{kernel}.log" for kernel in NEW_KERNELS if kernel.endswith("_ws")}
        self.assertLessEqual(wanted, logs, said)
        self.assertIn(f"{len(PROBED)} cases, 0 with an error", said)
        for decided in ("10 cases, wrong: Ping32_64-64_123x77_n2_d0 | look at the first wrong one",
                        "| boxes 10 or 18 wide? | 14.5 B/clk at best | 10 |",
                        "| heights of tiles? | N = 128: 590, N = 256: 600 TFLOP/s | by rounds alone",
                        "| dependent launch? | 0.80 of the time without, 1 cases | build it |",
                        "| planes stored one by one? | 1.05 of the time without, 1 cases | only without room for two, as now |",
                        "| RRDB's convolutions in pairs (design, 3.2)? | pairs 350, full rows 500 TFLOP/s | worth it |"):
            self.assertIn(decided, self.table)
        self.assertIn("random:rrdb: 1.000 ms, 1.000 ms, 1.00 times as fast", said)
        self.assertIn("With `folded_gates` too:", self.table)
        self.assertEqual(self.table.count("| rrdb | fast | 1.000 | 0.0 |  | 2.000 | 2.00 | 1 |"), 1 + len(NEW_KERNELS), self.table)

    def test_the_whole_run(self):
        status, said, logs = self.run_bundle()
        self.assertEqual(status, 0, said)
        wanted = {"fast_thin_ws.log", "cuda_golden_tests.log", "train.log", "sanitizer-memcheck.log", "prove-thin_ws.jsonl",
                  "cuda-folded_gates.jsonl", "torch.jsonl", "service.json", "upscaled.log"}
        self.assertLessEqual(wanted, logs, said)
        self.assertIn("| 4 | 1.0 | 1.00 | 2.00 | 0 |", self.table)

    def test_a_kernel_that_is_wrong_or_crashes_ends_alone(self):
        for prover in ('#!/bin/sh\necho "{\\"verdict\\":\\"wrong\\"}"\n', "#!/bin/sh\nkill -SEGV $$\n"):
            status, said, logs = self.run_bundle("--kernels", prover=prover)
            self.assertEqual(status, 1, said)
            for kernel in NEW_KERNELS:
                self.assertIn(f"FAILED: upscaled-prove {kernel}", said)
            self.assertIn("cuda.jsonl", logs)
            self.assertNotIn("cuda-conv3x3_ws.jsonl", logs)

    def test_tools_that_are_missing_are_left_out(self):
        status, said, _ = self.run_bundle("--kernels", tools=())
        self.assertEqual(status, 0, said)
        self.assertIn("not installed: left out", said)


if __name__ == "__main__":
    unittest.main()
