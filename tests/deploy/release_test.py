#!/usr/bin/env python3
"""deploy/release.sh gives the same files wherever and whenever it runs: release_test.py BUILD. Exits with 77 where a tool is missing.

The packages, which take minutes to compress, are compared by packages_test.py."""
import json
import os
import pathlib
import re
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

    def compile(self, folder, name, text, compiler, variable):
        """An object of the text, compiled in a folder of this name as packages are."""
        presets = json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]
        flags = next(preset for preset in presets if preset["name"] == "package")["cacheVariables"][variable]
        sources = self.folder / folder
        sources.mkdir(parents=True, exist_ok=True)
        (sources / name).write_text(text)
        run(compiler, "-O2", *flags.replace("${sourceDir}", str(sources)).split(), "-c", sources / name, "-o", "use.o", cwd=sources)
        return (sources / "use.o").read_bytes()

    def check_objects(self, *what):
        objects = [self.compile(folder, *what) for folder in ("here", "somewhere/else")]
        self.assertIn(what[0].encode(), objects[0])
        self.assertEqual(*objects)

    def test_objects_do_not_name_the_folder_that_they_were_compiled_in(self):
        self.check_objects("use.cc", "const char* Here() { return __FILE__; }\n", "c++", "CMAKE_CXX_FLAGS")

    @unittest.skipIf(NVCC is None, "no nvcc")
    def test_kernels_of_cuda_name_neither_folder_nor_process(self):
        text = "static __global__ void Add(float* x) { x[0] += 1; }\nvoid Run(float* x) { Add<<<1, 1>>>(x); }\nconst char* Here() { return __FILE__; }\n"
        self.check_objects("use.cu", text, NVCC, "CMAKE_CUDA_FLAGS")


if __name__ == "__main__":
    BUILD = build_to_pack(sys.argv[1], "npm", "cmake", "dpkg", "tar")
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
