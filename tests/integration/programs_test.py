#!/usr/bin/env python3
"""Runs the programs of docs/programs.md as they stand there: programs_test.py BUILD UPSCALED"""
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
PROGRAMS = dict(re.findall(r"^```(\w+)\n(.*?)^```$", (ROOT / "docs/programs.md").read_text(), re.M | re.S))
SAMPLE = ROOT / "tests/data/fast-2x/input.png"
MOST_LINES = 30
WIDTH, HEIGHT = 31, 17


class ProgramsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.server = LocalServer(UPSCALED, "--max-source-pixels=1000000")
        cls.addClassCleanup(cls.server.stop)
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        header = SAMPLE.read_bytes()
        cls.size = tuple(2 * side for side in struct.unpack(">II", header[16:24]))
        # An image with a claim beyond the server's limit.
        cls.large = header[:16] + struct.pack(">II", 50_000, 50_000) + header[24:]

    def run_program(self, *command, status: int = 0, **more) -> subprocess.CompletedProcess:
        done = subprocess.run([str(word) for word in command], cwd=self.folder, capture_output=True, timeout=250, **more)
        self.assertEqual(done.returncode, status, done)
        return done

    def write(self, language: str, name: str) -> pathlib.Path:
        file = self.folder / name
        file.write_text(PROGRAMS[language].replace("http://localhost:8000", f"http://{self.server.http}"))
        return file

    def test_each_has_thirty_lines_at_most(self) -> None:
        self.assertEqual(set(PROGRAMS), {"python", "js", "c"})
        for language, text in PROGRAMS.items():
            self.assertLessEqual(len([line for line in text.splitlines() if line.strip()]), MOST_LINES, language)

    def test_python(self) -> None:
        program = self.write("python", "upscale_folder.py")
        photos = self.folder / "photos"
        photos.mkdir()
        shutil.copy(SAMPLE, photos / "a.png")
        (photos / "b.txt").write_text("no image")
        (photos / "older").mkdir()
        shutil.copy(SAMPLE, photos / "c.png")
        told = self.run_program(sys.executable, program, "photos", "results", status=1,
                                env=os.environ | {"PYTHONPATH": str(ROOT / "client/python")}).stdout.decode()
        self.assertIn("a.png: {} x {} by general-2x".format(*self.size), told)
        self.assertIn("(INVALID_IMAGE)", told)
        for name in ("a.webp", "c.webp"):
            self.assertEqual((self.folder / "results" / name).read_bytes()[8:12], b"WEBP")
        (photos / "b.txt").unlink()
        self.run_program(sys.executable, program, "photos", "results", env=os.environ | {"PYTHONPATH": str(ROOT / "client/python")})

    @unittest.skipUnless(shutil.which("node"), "no node")
    def test_javascript(self) -> None:
        program = self.write("js", "upscale.mjs")
        (self.folder / "node_modules").mkdir()
        (self.folder / "node_modules/upscaled-client").symlink_to(ROOT / "client/js")
        told = self.run_program("node", program, SAMPLE, "out.webp").stdout.decode()
        self.assertIn("{} x {} by general-2x".format(*self.size), told)
        self.assertEqual((self.folder / "out.webp").read_bytes()[8:12], b"WEBP")
        (self.folder / "large.png").write_bytes(self.large)
        refused = self.run_program("node", program, "large.png", "none.webp", status=1).stderr.decode()
        self.assertIn("(at most 1000000)", refused)
        self.assertFalse((self.folder / "none.webp").exists())

    def test_c(self) -> None:
        if not list((BUILD / "lib").rglob("libupscaled.so.1")):
            self.skipTest("no libupscaled in this build")
        prefix = self.folder / "installed"
        for component in ("dev", "library"):
            self.run_program("cmake", "--install", BUILD, "--prefix", prefix, "--component", component)
        shutil.copytree(ROOT / "engine/model/bundled", prefix / "share/upscaled/models")
        library = next(prefix.rglob("libupscaled.so.1")).parent
        environment = os.environ | {"LD_LIBRARY_PATH": str(library), "PKG_CONFIG_PATH": str(library / "pkgconfig")}
        flags = self.run_program("pkg-config", "--cflags", "--libs", "upscaled", env=environment).stdout.decode().split()
        self.run_program("cc", "-Wall", "-Wextra", "-Werror", self.write("c", "upscale.c"), "-o", "upscale", *flags)
        ppm = b"P6 %d %d 255\n" % (WIDTH, HEIGHT) + bytes(x * 7 % 256 for x in range(3 * WIDTH * HEIGHT))
        result = self.run_program(self.folder / "upscale", input=ppm, env=environment).stdout
        head = b"P6 %d %d 255\n" % (2 * WIDTH, 2 * HEIGHT)
        self.assertTrue(result.startswith(head), result[:30])
        self.assertEqual(len(result), len(head) + 12 * WIDTH * HEIGHT)
        self.assertIn(b"cut off", self.run_program(self.folder / "upscale", input=ppm[:100], env=environment, status=1).stderr)


if __name__ == "__main__":
    BUILD, UPSCALED = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    unittest.main(argv=sys.argv[:1])
