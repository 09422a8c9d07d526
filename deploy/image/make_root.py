#!/usr/bin/env python3
"""make_root.py BUILD DEST: the root of an image, from a build folder and the system that it was built on.

DEST then has the programs of BUILD, the libraries that they load, the copyright file of each package that these come from, a list
of those packages (SPDX 2.3), certificates of authorities, and nothing else: no shell, no package manager."""
import argparse
import json
import os
import pathlib
import re
import shutil

from sbom import describe, libraries_of, packages_of, run, sbom

USER_ID = 65532  # of nobody on the host
AUTHORITIES = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
LICENCE_TEXTS = pathlib.Path("/usr/share/common-licenses")
NOT_SERVED = ("usr/bin/upscale-bench", "usr/bin/upscale-train", "usr/share/upscaled/proto", "usr/include", "usr/lib/**/libupscaled.so*",
              "usr/lib/**/pkgconfig", "usr/lib/**/cmake")
FILES = {
    "etc/passwd": f"upscaled:x:{USER_ID}:{USER_ID}::/:/nonexistent\n",
    "etc/group": f"upscaled:x:{USER_ID}:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}
FOLDERS = {"tmp": 0o1777, "models": 0o755}
SBOM = "usr/share/doc/upscaled/sbom.spdx.json"


def install(build, dest):
    run("cmake", "--install", build, "--prefix", "/usr", "--strip", env={**os.environ, "DESTDIR": str(dest)})
    for path in [path for pattern in NOT_SERVED for path in dest.glob(pattern)]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def copy(source, dest):
    """To the same place in `dest`, where /lib and /lib64 are in /usr as on the system."""
    place = re.sub(r"^/lib", "/usr/lib", str(source))
    target = dest / place[1:]
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)  # what links lead to


def write(dest, name, text):
    path = dest / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("dest", type=pathlib.Path)
    arguments = parser.parse_args()
    dest = arguments.dest
    if dest.exists() and any(dest.iterdir()):
        parser.error(f"{dest} is not empty")
    os.umask(0o022)
    install(arguments.build, dest)
    for name in ("lib", "lib64"):
        (dest / name).symlink_to(f"usr/{name}")
    libraries = libraries_of(dest)
    for path in [*libraries, AUTHORITIES]:
        copy(path, dest)
    packages = [describe(name) for name in sorted(packages_of(libraries) | {"ca-certificates"})]
    for package in packages:
        copy(f"/usr/share/doc/{package['name']}/copyright", dest)
    shutil.copytree(LICENCE_TEXTS, dest / str(LICENCE_TEXTS)[1:])  # which copyright files name
    version = run(arguments.build / "bin" / "upscaled", "--version").split()[-1]
    write(dest, SBOM, json.dumps(sbom(packages, version), indent=1) + "\n")
    for name, text in FILES.items():
        write(dest, name, text)
    for name, mode in FOLDERS.items():
        (dest / name).mkdir()
        (dest / name).chmod(mode)


if __name__ == "__main__":
    main()
