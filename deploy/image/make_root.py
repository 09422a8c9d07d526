#!/usr/bin/env python3
"""make_root.py BUILD DEST: the root of an image, from a build folder and the system that it was built on.

DEST then has the programs of BUILD, the libraries that they load, the copyright file of each package that these come from, a list
of those packages (SPDX 2.3), certificates of authorities, and nothing else: no shell, no package manager."""
import argparse
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import time

USER_ID = 65532  # of nobody on the host
AUTHORITIES = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
LICENCE_TEXTS = pathlib.Path("/usr/share/common-licenses")
NOT_SERVED = ("usr/bin/upscale-bench", "usr/bin/upscale-train", "usr/share/upscaled/proto")
FILES = {
    "etc/passwd": f"upscaled:x:{USER_ID}:{USER_ID}::/:/nonexistent\n",
    "etc/group": f"upscaled:x:{USER_ID}:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}
FOLDERS = {"tmp": 0o1777, "models": 0o755}
SBOM = "usr/share/doc/upscaled/sbom.spdx.json"


def run(*command, **more):
    return subprocess.run(command, check=True, text=True, capture_output=True, **more).stdout


def install(build, dest):
    run("cmake", "--install", build, "--prefix", "/usr", "--strip", env={**os.environ, "DESTDIR": str(dest)})
    for name in NOT_SERVED:
        path = dest / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def libraries_of(dest):
    """The paths by which the dynamic linker finds what the programs and plugins in `dest` load."""
    found = set()
    for path in [*dest.glob("usr/bin/*"), *dest.glob("usr/lib/**/*.so")]:
        told = run("ldd", path)
        if "not found" in told:
            raise SystemExit(f"{path} lacks libraries:\n{told}")
        found.update(re.findall(r"(/\S+) \(0x", told))
    return sorted(found)


def copy(source, dest):
    """To the same place in `dest`, where /lib and /lib64 are in /usr as on the system."""
    place = re.sub(r"^/lib", "/usr/lib", str(source))
    target = dest / place[1:]
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)  # what links lead to


def packages_of(paths):
    """The packages that files of the system come from, be they listed under /lib or /usr/lib."""
    names_of = {}
    for path in paths:
        names = {path, os.path.realpath(path)}
        names_of[path] = names | {re.sub(r"^/usr/lib", "/lib", name) for name in names}
    told = subprocess.run(["dpkg-query", "--search", *set().union(*names_of.values())], text=True, capture_output=True).stdout
    package_of = {name: packages.split(", ")[0] for packages, name in (line.split(": ", 1) for line in told.splitlines())}
    found = set()
    for path, names in names_of.items():
        listed = sorted(names & package_of.keys())
        if not listed:
            raise SystemExit(f"{path} is of no package: nothing tells its licence")
        found.add(package_of[listed[0]])
    return found


def describe(package):
    name, version, architecture = run(
        "dpkg-query", "--show", "--showformat=${Package}\t${Version}\t${Architecture}", package
    ).split("\t")
    return {"name": name, "version": version, "architecture": architecture}


def system():
    """The fields of /etc/os-release."""
    lines = pathlib.Path("/etc/os-release").read_text().splitlines()
    return dict(line.replace('"', "").split("=", 1) for line in lines if "=" in line)


def sbom(packages, version):
    release = system()
    listed = [
        {
            "SPDXID": f"SPDXRef-{re.sub('[^A-Za-z0-9.-]', '-', package['name'])}",
            "name": package["name"],
            "versionInfo": package["version"],
            "supplier": f"Organization: {release['NAME']}",
            "downloadLocation": "NOASSERTION",
            "externalRefs": [
                {
                    "referenceCategory": "PACKAGE-MANAGER",
                    "referenceType": "purl",
                    "referenceLocator": f"pkg:deb/{release['ID']}/{package['name']}@{package['version']}"
                    f"?arch={package['architecture']}&distro={release['ID']}-{release['VERSION_ID']}",
                }
            ],
        }
        for package in packages
    ]
    ours = {"SPDXID": "SPDXRef-upscaled", "name": "upscaled", "versionInfo": version, "downloadLocation": "NOASSERTION"}
    contains = [
        {"spdxElementId": ours["SPDXID"], "relationshipType": "DEPENDS_ON", "relatedSpdxElement": x["SPDXID"]} for x in listed
    ]
    digest = hashlib.sha256(json.dumps([ours, listed]).encode()).hexdigest()
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", "0"))))
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"upscaled-{version}",
        "documentNamespace": f"https://spdx.org/spdxdocs/upscaled-{version}-{digest}",
        "creationInfo": {"created": created, "creators": ["Tool: deploy/image/make_root.py"]},
        "packages": [ours, *listed],
        "relationships": [
            {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": ours["SPDXID"]},
            *contains,
        ],
    }


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
