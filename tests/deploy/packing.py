"""Helpers that the tests of packages and of releases share."""
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77


def run(*command, **more):
    """The standard output of a command that succeeds."""
    done = subprocess.run(command, capture_output=True, timeout=500, **more)
    if done.returncode != 0:
        raise AssertionError(f"{command} exits with {done.returncode}: {done.stdout.decode()}{done.stderr.decode()}")
    return done.stdout


def version():
    return re.search(r"^project\(upscaled VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]


def build_to_pack(folder, *tools):
    """The build folder. Without these tools, or with programs that are not packed, ends the test as skipped."""
    build = pathlib.Path(folder).resolve()
    missing = [tool for tool in tools if shutil.which(tool) is None]
    why = f"no {', '.join(missing)} here" if missing else ""
    if "UPSCALED_SANITIZE:STRING=\n" not in (build / "CMakeCache.txt").read_text():
        why = "programs with sanitizers are not packed"
    if why:
        print(f"SKIPPED: {why}")
        sys.exit(SKIPPED)
    return build
