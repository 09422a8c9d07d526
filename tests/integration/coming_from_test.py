#!/usr/bin/env python3
"""Runs each line of the table "Coming from ..." of docs/cli.md: coming_from_test.py UPSCALED UPSCALE

A line of the table without a test here fails, as does a test without a line.
"""
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

from local_server import LocalServer

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/cli.md").read_text()
SAMPLE = ROOT / "tests/data/fast-2x/input.png"
TABLE = re.search(r"^## Coming from .*?\n\n\| There \| Here \|\n\| --- \| --- \|\n(.*?)(?:\n\n|\Z)", PAGE, re.M | re.S)[1]
ROWS = [row.strip("| ").split(" | ", 1)[0] for row in TABLE.splitlines()]
TESTED: set[str] = set()


def row(there: str):
    """Marks the test of the line that begins with `there`."""
    TESTED.add(there)
    return lambda test: test


def png_size(path: pathlib.Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n"), data[:16]
    return struct.unpack(">II", data[16:24])


class ComingFromTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.server = LocalServer(UPSCALED)
        cls.addClassCleanup(cls.server.stop)

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name in ("in.png", "b.png"):
            shutil.copy(SAMPLE, self.folder / name)
        self.size = png_size(self.folder / "in.png")

    def run_command(self, *arguments: str, server: str = "", status: int = 0) -> subprocess.CompletedProcess:
        done = subprocess.run([UPSCALE, *arguments], cwd=self.folder, capture_output=True, text=True, timeout=600,
                              env=os.environ | {"UPSCALE_SERVER": server or self.server.grpc})
        self.assertEqual(done.returncode, status, (arguments, done.stdout, done.stderr))
        return done

    def upscale(self, *flags: str) -> bytes:
        """The result of a file with these flags and no command."""
        self.run_command("-i", "in.png", "-o", "out.png", *flags)
        return (self.folder / "out.png").read_bytes()

    def facts(self, *flags: str) -> dict:
        return json.loads(self.run_command("-i", "in.png", "-o", "out.png", "--json", *flags).stdout)

    def refused(self, *flags: str) -> str:
        return self.run_command("-i", "in.png", "-o", "out.png", *flags, status=1).stderr

    @row("`-i in -o out`")
    def test_input_and_output(self) -> None:
        self.upscale()
        self.assertEqual(png_size(self.folder / "out.png"), tuple(2 * side for side in self.size))
        (self.folder / "photos").mkdir()
        shutil.copy(SAMPLE, self.folder / "photos/a.png")
        self.run_command("-i", "photos", "-o", "results")
        self.assertEqual(png_size(self.folder / "results/a.png"), tuple(2 * side for side in self.size))

    @row("`-s 2`")
    def test_scale(self) -> None:
        self.upscale("-s", "4")
        self.assertEqual(png_size(self.folder / "out.png"), tuple(4 * side for side in self.size))

    @row("`-n 1` (waifu2x noise)")
    def test_noise(self) -> None:
        self.assertNotEqual(self.upscale("-n", "1"), self.upscale("-n", "-1"))
        self.assertEqual(self.upscale(), self.upscale("-n", "-1"), "a PNG has no JPEG quality to go by")

    @row("`-n 5` (SRMD)")
    def test_noise_of_srmd(self) -> None:
        self.assertIn("the strongest is -n 3", self.refused("-n", "5"))

    @row("`-s 1` (only noise)")
    def test_only_noise(self) -> None:
        self.assertIn("did not run", self.run_command("-i", "in.png", "-o", "out.png", "-s", "1").stderr)
        self.assertNotEqual(self.upscale("-s", "1", "-n", "1"), self.upscale("-s", "1", "-n", "3"))
        self.assertEqual(png_size(self.folder / "out.png"), self.size)

    @row("`-n NAME` (realesrgan model)")
    def test_model_by_noise_flag(self) -> None:
        self.assertIn("use -m", self.refused("-n", "realesrgan-x4plus"))
        self.assertEqual(self.facts("-m", "fast-2x")["model"], "fast-2x")

    @row("`-m PATH` (model folder)")
    def test_model_folder(self) -> None:
        for path in ("models/", "./models-cunet", str(self.folder)):
            self.assertIn(f"upscaled --model-repository {path}", self.refused("-m", path))
        # A name possible for a model goes to the server.
        told = self.run_command("-i", "in.png", "-o", "out.png", "-m", "models-cunet", status=3).stderr
        self.assertIn("upscaled --model-repository", told)

    def test_folders_of_models_as_they_are_published(self) -> None:
        published = pathlib.Path(os.environ.get("UPSCALED_TEST_MODELS", ROOT.parent / "shared")) / "models"
        for folder, name in (("realesr-published", "realesr-animevideov3"), ("waifu2x-cunet-art", "waifu2x-cunet-art")):
            if not (published / folder).is_dir():
                self.skipTest("no UPSCALED_TEST_MODELS")
            done = subprocess.run([UPSCALE, "-i", "in.png", "-o", "out.png", "-m", name, "-s", "2", "--local"], cwd=self.folder,
                                  capture_output=True, text=True, timeout=600,
                                  env=os.environ | {"UPSCALED_MODEL_REPOSITORY": f"{published / folder}/", "UPSCALED_DEVICE": "cpu"})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(png_size(self.folder / "out.png"), tuple(2 * side for side in self.size))

    @row("`-t 256`, `-t 0`")
    def test_tile(self) -> None:
        self.assertEqual(self.upscale("-t", "32"), self.upscale("-t", "0"))
        self.assertEqual(self.upscale("-t", "256"), self.upscale())
        self.assertEqual(self.upscale("-t", "0,0,256"), self.upscale())
        self.assertIn("32 to 4096", self.refused("-t", "8"))

    @row("`-g 0`")
    def test_device(self) -> None:
        for device in ("0", "-1", "0,1"):
            self.assertIn("upscaled --device cuda:0", self.refused("-g", device))

    @row("`-c 3` (Real-CUGAN), `-c 50` (Upscayl)")
    def test_compression_or_gap(self) -> None:
        self.assertIn("-q or --png-compression", self.refused("-c", "3"))

    @row("`-z 4` (Upscayl)")
    def test_scale_of_the_model(self) -> None:
        self.assertIn("a model's scale is known", self.refused("-z", "4"))

    @row("`-w 100`, `-w 100:default` (Upscayl)")
    def test_width(self) -> None:
        for width in ("100", "100:default"):
            self.upscale("-w", width)
            self.assertEqual(png_size(self.folder / "out.png")[0], 100)
        self.assertIn("use -w 100", self.refused("-w", "100:box"))

    @row("`-r 90x70` (Upscayl)")
    def test_size(self) -> None:
        self.assertIn("--width and --height, with --fit stretch", self.refused("-r", "90x70"))
        self.upscale("--width", "90", "--height", "70", "--fit", "stretch")
        self.assertEqual(png_size(self.folder / "out.png"), (90, 70))

    @row("no `-s` (realesrgan: 4)")
    def test_scale_by_default(self) -> None:
        self.upscale()
        self.assertEqual(png_size(self.folder / "out.png"), tuple(2 * side for side in self.size))

    @row("`-j 1:2:2`")
    def test_threads(self) -> None:
        for counts in ("1:2:2", "1:2,2,2:2", "2"):
            self.upscale("-j", counts)
        self.refused("-j", "1:none:2")

    @row("`-x`")
    def test_tta(self) -> None:
        self.assertNotEqual(self.upscale("-x"), self.upscale())

    @row("`-f webp`")
    def test_format(self) -> None:
        self.run_command("-i", "in.png", "-o", "out", "-f", "webp")
        self.assertEqual((self.folder / "out").read_bytes()[8:12], b"WEBP")

    @row("`-v`")
    def test_verbose(self) -> None:
        told = self.run_command("-i", "in.png", "-o", "out.png", "-v")
        self.assertIn("general-2x", told.stdout + told.stderr)

    @row("`-i *.png -o out/`")
    def test_several_inputs(self) -> None:
        self.run_command("-i", "in.png", "b.png", "-o", "out/")
        self.run_command("-i", "*.png", "-o", "expanded/")  # of a program that starts it without a shell
        shell = subprocess.run(f"{UPSCALE} -i *.png -o globbed/ --server {self.server.grpc}", shell=True, cwd=self.folder,
                               capture_output=True, text=True)
        self.assertEqual(shell.returncode, 0, shell.stderr)
        for name in ("out/in.png", "out/b.png", "expanded/b.png", "globbed/in.png", "globbed/b.png"):
            self.assertEqual(png_size(self.folder / name), tuple(2 * side for side in self.size))

    @row("`-h`")
    def test_help(self) -> None:
        self.assertIn("--input", self.run_command("image", "-h").stdout)
        self.assertIn("image", self.run_command("-h").stdout)

    def test_version_is_the_projects(self) -> None:
        version = re.search(r"^project\(upscaled VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]
        self.assertEqual(self.run_command("--version").stdout.strip(), f"upscale {version}")

    def test_https_needs_no_tls_flag(self) -> None:
        # The port does not speak TLS: the command tries to, and says so, instead of asking for --tls.
        told = self.run_command("-i", "in.png", "-o", "out.png", "--retries", "0", server=f"https://{self.server.http}", status=2).stderr
        self.assertNotIn("--tls ", told)
        self.assertRegex(told, "(?i)ssl|tls")
        self.run_command("-i", "in.png", "-o", "out.png", server=f"http://{self.server.http}")

    def test_each_line_has_a_test(self) -> None:
        self.assertEqual(TESTED, set(ROWS))


if __name__ == "__main__":
    UPSCALED, UPSCALE = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
