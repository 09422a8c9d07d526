#!/usr/bin/env python3
"""Checks that every header compiles alone. Usage: headers.py BUILD_FOLDER

Parsing libraries takes nearly all of the time, so what many headers include is precompiled, and a header is
compiled after another. It is given only what it includes, itself or through headers of ours, and so would have anyway.
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("engine", "server", "client")
INCLUDE = re.compile(r'^#include [<"](.+)[>"]', re.M)
CUDA = "/usr/local/cuda/include"
OPTIONAL = {"CL/opencl.hpp": "opencl", "cuda_runtime_api.h": "cuda"}  # a plugin's folders without it are left out

# A header is given the first that it includes all of.
STATUS_OR, MUTEX, TIME = "absl/status/statusor.h", "absl/synchronization/mutex.h", "absl/time/time.h"
SERVER = (STATUS_OR, MUTEX, TIME, "filesystem", "functional", "map", "thread")
CONTRACT = "upscale/v1/upscale.pb.h"
PRECOMPILED = (
    (*SERVER, CONTRACT),
    SERVER,
    (STATUS_OR, MUTEX, CONTRACT),
    (STATUS_OR, MUTEX, "functional", "map"),
    (STATUS_OR, MUTEX),
    (STATUS_OR, "filesystem"),
    (STATUS_OR, TIME),
    (STATUS_OR,),
    ("CLI/CLI.hpp",),
    ("absl/status/status.h", "algorithm"),
    ("absl/status/status.h",),
    (TIME,),
    ("memory",),
    ("string",),
    ("algorithm",),
    ("string_view",),
)


class Compiler:
    def __init__(self, build):
        self.command = [os.environ.get("CXX") or shutil.which("clang++-14") or "c++", "-std=c++20", "-I", ROOT]
        self.precompiling = ["-fpch-instantiate-templates"] if "clang" in self.command[0] else []  # once, not in each use
        for folder in (f"{build}/proto/generated", f"{build}/engine/model/generated", CUDA):
            self.command += ["-isystem", folder]

    def has(self, header):
        return self._run("-E", "-x", "c++", "-", input=f"#include <{header}>").returncode == 0

    def precompile(self, headers, folder):
        """Returns the path to include, beside which the compilers look for what is precompiled."""
        path = pathlib.Path(tempfile.mkdtemp(dir=folder)) / "precompiled.h"
        path.write_text("".join(f"#include <{header}>\n" for header in headers))
        compiled = self._run(*self.precompiling, "-x", "c++-header", path, "-o", f"{path}.gch")
        if compiled.returncode:
            sys.exit(compiled.stderr)
        return path

    def errors(self, headers):
        includes = [argument for header in headers for argument in ("-include", header)]
        result = self._run("-fsyntax-only", *includes, "-x", "c++", "/dev/null")
        return result.stderr if result.returncode else ""

    def _run(self, *arguments, **options):
        return subprocess.run([*self.command, *arguments], cwd=ROOT, capture_output=True, text=True, **options)


class Includes:
    """The includes of headers, directly or through others of ours."""

    def __init__(self):
        self._known = {}

    def of(self, name):
        if name not in self._known:
            path = ROOT / name
            found = set(INCLUDE.findall(path.read_text())) if path.is_file() else set()
            self._known[name] = found.union(*map(self.of, found))
        return self._known[name]


def find_headers(compiler):
    absent = {folder for header, folder in OPTIONAL.items() if not compiler.has(header)}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.h")):
            parts = path.relative_to(ROOT).parts
            if "node_modules" not in parts and not absent.intersection(parts):
                yield str(path.relative_to(ROOT))


def chains(headers, includes):
    """Lists of headers to compile together, each of which starts with what is precompiled, if anything, and goes on with
    headers that include the one before."""
    found = {}
    for header in sorted(headers, key=lambda header: len(includes.of(header))):
        known = includes.of(header)
        start = next((index for index, first in enumerate(PRECOMPILED) if known.issuperset(first)), None)
        of_start = found.setdefault(start, [])
        chain = next((chain for chain in of_start if chain[-1] in known), None)
        if chain:
            chain.append(header)
        else:
            of_start.append([header])
    return [(start, chain) for start, of_start in found.items() for chain in of_start]


def main():
    compiler = Compiler(pathlib.Path(sys.argv[1]).resolve())
    includes = Includes()
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        paths = list(pool.map(lambda headers: compiler.precompile(headers, folder), PRECOMPILED))

        def check(start_and_chain):
            start, chain = start_and_chain
            return chain, compiler.errors(chain if start is None else [paths[start], *chain])

        bad = [(chain, errors) for chain, errors in pool.map(check, chains(find_headers(compiler), includes)) if errors]
    for chain, errors in bad:
        print(f"one does not compile alone, or after the one before, which it includes: {', '.join(chain)}\n{errors}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
