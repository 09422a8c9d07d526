#!/usr/bin/env python3
"""deploy/release.sh gives the same files wherever and whenever it runs: release_test.py BUILD. Exits with 77 where a tool is missing.

The packages, which take minutes to compress, are compared by packages_test.py."""
import json
import os
import pathlib
import re
import shlex
import shutil
import sys
import tempfile
import unittest

from packing import ROOT, build_to_pack, run, version

NVCC = shutil.which("nvcc") or next((path for path in ("/usr/local/cuda/bin/nvcc",) if os.path.exists(path)), None)
IMAGE = shutil.which("buildah") is not None and os.geteuid() == 0
PARTS = "archive,chart,clients,sbom" + (",image" if IMAGE else "")
SOURCES = ("CMakeLists.txt", "LICENSE", "README.md", "client", "deploy")
ENVIRONMENTS = (
    {"LC_ALL": "C.UTF-8", "TZ": "UTC", "umask": 0o022},
    {"LC_ALL": "C", "TZ": "Pacific/Kiritimati", "umask": 0o077},
)


class ReleaseTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def release(self, name, umask, **environment):
        """Releases a copy of the sources, with times and rights of its own."""
        sources, home, dest = (self.folder / name / part for part in ("sources", "home", "files"))
        home.mkdir(parents=True)
        for part in SOURCES:
            if (ROOT / part).is_dir():
                shutil.copytree(ROOT / part, sources / part, copy_function=shutil.copy, ignore=shutil.ignore_patterns("node_modules", "__pycache__"))
            else:
                sources.mkdir(exist_ok=True)
                shutil.copyfile(ROOT / part, sources / part)
        for path in sources.rglob("*"):
            path.chmod(path.stat().st_mode & ~umask)
        environment |= {"HOME": str(home), "PATH": os.environ["PATH"], "SOURCE_DATE_EPOCH": "1700000000"}
        run("bash", sources / "deploy/release.sh", "--no-install", "--from", BUILD, "--parts", PARTS, dest, cwd=home, umask=umask, env=environment)
        sums = dict(reversed(line.split()) for line in (dest / "SHA256SUMS").read_text().splitlines())
        self.assertEqual(set(sums) | {"SHA256SUMS"}, {path.name for path in dest.iterdir()})
        return dest, sums

    def test_equal_sources_give_equal_files(self):
        (first, sums), (_, again) = (self.release(str(number), **environment) for number, environment in enumerate(ENVIRONMENTS))
        self.assertEqual(sums, again)
        kinds = {re.sub(r"(linux|image)-\w+", r"\1", name).replace(version(), "V") for name in sums}
        self.assertEqual(kinds, {"upscaled-V-linux.tar.gz", "upscaled-chart-V.tgz", "upscaled-client-V.tgz",
                                 "upscaled_client-V-py3-none-any.whl", "upscaled-V.spdx.json"} | ({"upscaled-V-image.tar"} if IMAGE else set()))
        self.check_archive(next(first.glob("*-linux-*.tar.gz")))

    def check_archive(self, archive):
        """The archive's programs run where it is unpacked, and it has their pages."""
        run("tar", "-xf", archive, "-C", self.folder)
        tree = self.folder / f"upscaled-{version()}"
        for program in ("upscaled", "upscale", "upscale-worker"):
            run(tree / "bin" / program, "--help")
            self.assertTrue((tree / f"share/man/man1/{program}.1.gz").exists(), program)
            self.assertTrue((tree / "share/bash-completion/completions" / program).exists(), program)
        run(tree / "bin/upscale", "--local", "-i", ROOT / "deploy/demo/sample.png", "-o", self.folder / "first.png",
            env={**os.environ, "UPSCALED_DEVICE": "cpu"})

    def check_objects(self, name, text, command, variable):
        """The command, with the flags of packages, gives equal objects of `name` in two folders: of the project's own file, or of the text."""
        presets = json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]
        flags = next(preset for preset in presets if preset["name"] == "package")["cacheVariables"][variable]
        objects = []
        for folder in ("here", "somewhere/else"):
            sources = self.folder / folder
            (sources / name).parent.mkdir(parents=True)
            if text is None:
                shutil.copytree(ROOT / "engine", sources / "engine", dirs_exist_ok=True, ignore=shutil.ignore_patterns("bundled"))
            else:
                (sources / name).write_text(text)
            run(*command(sources), *flags.replace("${sourceDir}", str(sources)).split(), "-c", sources / name, "-o", "use.o", cwd=sources)
            objects.append((sources / "use.o").read_bytes())
        self.assertTrue(objects[0] == objects[1], f"the objects of {name} differ")
        return objects[0]

    def test_objects_do_not_name_the_folder_that_they_were_compiled_in(self):
        whole = self.check_objects("use.cc", "const char* Here() { return __FILE__; }\n", lambda sources: ("c++", "-O2"), "CMAKE_CXX_FLAGS")
        self.assertIn(b"use.cc", whole)

    @unittest.skipIf(NVCC is None, "no nvcc")
    def test_kernels_of_cuda_name_neither_folder_nor_process(self):
        name = "engine/backends/cuda/kernels/device_code.cu"
        commands = json.loads((pathlib.Path(BUILD) / "compile_commands.json").read_text())
        words = shlex.split(next(entry["command"] for entry in commands if entry["file"] == str(ROOT / name)))
        own = words[words.index(next(word for word in words if word.endswith("nvcc"))):words.index("-x")]
        self.check_objects(name, None, lambda sources: [word.replace(str(ROOT), str(sources)) for word in own], "CMAKE_CUDA_FLAGS")


if __name__ == "__main__":
    BUILD = build_to_pack(sys.argv[1], "npm", "cmake", "dpkg", "tar")
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
