#!/usr/bin/env python3
"""sbom.py ROOT VERSION: prints the packages that the programs and plugins in ROOT load, as SPDX 2.3."""
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time


def run(*command, **more):
    return subprocess.run(command, check=True, text=True, capture_output=True, **more).stdout


def libraries_of(dest):
    """The paths by which the dynamic linker finds what the programs and plugins in `dest` load."""
    found = set()
    for path in [*dest.glob("**/bin/*"), *dest.glob("**/lib/**/upscaled/*.so")]:
        told = run("ldd", path)
        if "not found" in told:
            raise SystemExit(f"{path} lacks libraries:\n{told}")
        found.update(re.findall(r"(/\S+) \(0x", told))
    return sorted(found)


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
        "creationInfo": {"created": created, "creators": ["Tool: deploy/image/sbom.py"]},
        "packages": [ours, *listed],
        "relationships": [
            {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": ours["SPDXID"]},
            *contains,
        ],
    }


def main():
    packages = [describe(name) for name in sorted(packages_of(libraries_of(pathlib.Path(sys.argv[1]))))]
    print(json.dumps(sbom(packages, sys.argv[2]), indent=1))


if __name__ == "__main__":
    main()
