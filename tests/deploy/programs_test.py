#!/usr/bin/env python3
"""Every program that the server starts is built by the quickstart, and in the package and the image of the server."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def started():
    """The names of programs, as the server's sources have them."""
    sources = [path for path in (ROOT / "server").rglob("*") if path.suffix in (".cc", ".h")]
    return {name for path in sources for name in re.findall(r'"(upscaled-[a-z]+)"', path.read_text())}


class ProgramsTest(unittest.TestCase):
    def test_the_server_starts_known_programs(self):
        self.assertLessEqual({"upscaled-decode", "upscaled-prove"}, started())

    def test_they_are_where_the_server_is(self):
        quickstart = re.search(r"^build release .* -- (.*)$", (ROOT / "deploy/quickstart.sh").read_text(), re.M)[1].split()
        packaged = {name for path in (ROOT / "server").rglob("CMakeLists.txt")
                     for name in re.findall(r"^upscaled_binary\((\S+) COMPONENT server", path.read_text(), re.M)}
        left_out = re.search(r"^NOT_SERVED = (.*)$", (ROOT / "deploy/image/make_root.py").read_text(), re.M)[1]
        readme = (ROOT / "deploy/image/README.md").read_text()
        for name in started():
            self.assertIn(name, quickstart)
            self.assertIn(name, packaged)
            self.assertNotIn(f"/{name}\"", left_out)
            self.assertIn(f"`{name}`", readme)


if __name__ == "__main__":
    unittest.main()
