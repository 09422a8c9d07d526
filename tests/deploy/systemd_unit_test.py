#!/usr/bin/env python3
"""deploy/systemd's units, as systemd's own analysis sees them: systemd_unit_test.py UPSCALE_WORKER."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import server_facts

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "systemd"
SERVER, WORKER = (FOLDER / f"{name}.service" for name in ("upscaled", "upscale-worker"))
SKIPPED = 77
MAX_EXPOSURE = 1.5  # of 10, as README.md says with its figure


def analyze(*args, **more):
    return subprocess.run(["systemd-analyze", *args], capture_output=True, text=True, timeout=60, **more)


class SystemdUnitTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def verify(self, original, *drop_ins):
        """Verifies a copy whose program is there."""
        text = re.sub("^ExecStart=[^ ]+", f"ExecStart={sys.executable}", original.read_text(), flags=re.M)
        unit = self.folder / original.name
        unit.write_text(re.sub(r"^Documentation=.*\n", "", text, flags=re.M))
        for drop_in in drop_ins:
            folder = self.folder / f"{original.name}.d"
            folder.mkdir(exist_ok=True)
            shutil.copy(FOLDER / drop_in, folder)
        result = analyze("verify", "--man=no", unit, env=dict(os.environ, SYSTEMD_UNIT_PATH=f"{self.folder}:"))
        own = [line for line in (result.stdout + result.stderr).splitlines() if unit.stem in line]
        self.assertEqual(own, [])

    def test_every_line_is_known(self):
        for unit in (SERVER, WORKER):
            with self.subTest(unit.name):
                self.verify(unit)

    def test_with_drop_in(self):
        self.verify(SERVER, "gpu.conf")

    def test_exposure(self):
        for unit in (SERVER, WORKER):
            result = analyze("security", "--offline=true", unit)
            if "unrecognized option" in result.stderr:
                self.skipTest("this systemd-analyze has no --offline")
            score = re.search(rf"Overall exposure level for {unit.name}: ([0-9.]+)", result.stdout)
            self.assertIsNotNone(score, result.stdout + result.stderr)
            self.assertLessEqual(float(score[1]), MAX_EXPOSURE)
            self.assertIn(f"offline=true {unit.name}` gives a score of **{score[1]}**", (FOLDER / "README.md").read_text())

    def stop_s(self, unit):
        return int(re.search(r"^TimeoutStopSec=(\d+)$", unit.read_text(), re.M)[1])

    def test_stops_later_than_the_server_does(self):
        readme = (FOLDER.parents[1] / "docs/configuration.md").read_text()
        drain = int(re.search(r"`--drain-timeout TIME` \| `(\d+)s`", readme)[1])
        self.assertGreaterEqual(self.stop_s(SERVER), drain + 5)

    def test_the_worker_has_its_settings_and_stops_sooner(self):
        unit, told = WORKER.read_text(), server_facts.told(PROGRAM)
        self.assertGreater(self.stop_s(WORKER), server_facts.drain_s(PROGRAM))
        used = set(re.findall(r" (--[a-z-]+)", re.search("^ExecStart=.*$", unit, re.M)[0]))
        self.assertEqual(used - server_facts.flags(PROGRAM), set())
        names = set(re.findall(r"UPSCALE_\w+", unit))
        self.assertGreater(len(names), 2)
        self.assertEqual({name for name in names if name not in told}, set())


if __name__ == "__main__":
    if shutil.which("systemd-analyze") is None:
        print("skipped: no systemd-analyze here")
        sys.exit(SKIPPED)
    PROGRAM = sys.argv[1]
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
