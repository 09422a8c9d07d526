#!/usr/bin/env python3
"""deploy/systemd's units, as systemd's own analysis sees them."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "systemd"
UNIT = FOLDER / "upscaled.service"
SKIPPED = 77
MAX_EXPOSURE = 1.5  # of 10, as README.md says with its figure


def analyze(*args, **more):
    return subprocess.run(["systemd-analyze", *args], capture_output=True, text=True, timeout=60, **more)


class SystemdUnitTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def verify(self, *drop_ins):
        """Of a copy whose program is there."""
        text = UNIT.read_text().replace("/usr/local/bin/upscaled", sys.executable)
        unit = self.folder / "upscaled.service"
        unit.write_text(re.sub(r"^Documentation=.*\n", "", text, flags=re.M))
        for drop_in in drop_ins:
            folder = self.folder / "upscaled.service.d"
            folder.mkdir(exist_ok=True)
            shutil.copy(FOLDER / drop_in, folder)
        result = analyze("verify", "--man=no", unit, env=dict(os.environ, SYSTEMD_UNIT_PATH=f"{self.folder}:"))
        own = [line for line in (result.stdout + result.stderr).splitlines() if "upscaled" in line]
        self.assertEqual(own, [])

    def test_every_line_is_known(self):
        self.verify()

    def test_with_drop_in(self):
        self.verify("gpu.conf")

    def test_exposure(self):
        result = analyze("security", "--offline=true", UNIT)
        if "unrecognized option" in result.stderr:
            self.skipTest("this systemd-analyze has no --offline")
        score = re.search(r"Overall exposure level for upscaled.service: ([0-9.]+)", result.stdout)
        self.assertIsNotNone(score, result.stdout + result.stderr)
        self.assertLessEqual(float(score[1]), MAX_EXPOSURE)
        self.assertIn(f"score of **{score[1]}**", (FOLDER / "README.md").read_text())

    def test_stops_later_than_the_server_does(self):
        unit = UNIT.read_text()
        stop = int(re.search(r"^TimeoutStopSec=(\d+)$", unit, re.M)[1])
        readme = (FOLDER.parents[1] / "README.md").read_text()
        drain = int(re.search(r"`--drain-timeout TIME` \| `(\d+)s`", readme)[1])
        self.assertGreaterEqual(stop, drain + 5)


if __name__ == "__main__":
    if shutil.which("systemd-analyze") is None:
        print("skipped: no systemd-analyze here")
        sys.exit(SKIPPED)
    unittest.main()
