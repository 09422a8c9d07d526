"""Installs client/python by pip without a package index: 77 = skipped, without pip."""
import importlib.metadata
import pathlib
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / "client/python"

if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode != 0:
    print("skipped: needs pip")
    sys.exit(77)

with tempfile.TemporaryDirectory() as folder:
    target = pathlib.Path(folder) / "site"
    subprocess.run([sys.executable, "-m", "pip", "install", "--no-index", "--quiet", "--no-compile", "--target", target, SOURCE],
                   check=True)
    package = SOURCE / "upscaled_client"
    sources = {path.name: path.read_bytes() for path in package.iterdir() if path.is_file()}
    installed = {path.name: path.read_bytes() for path in (target / package.name).iterdir() if path.is_file()}
    assert installed == sources, sorted(installed.keys() ^ sources.keys())
    [distribution] = importlib.metadata.distributions(path=[str(target)])
    assert distribution.metadata["Name"] == "upscaled-client" and not distribution.requires
    version = distribution.version
    assert f'version = "{version}"' in (SOURCE / "pyproject.toml").read_text()

    sys.path.insert(0, str(SOURCE / "build_backend"))
    import upscaled_build
    with tarfile.open(pathlib.Path(folder) / upscaled_build.build_sdist(folder)) as archive:
        names = {pathlib.PurePath(name).relative_to(f"upscaled_client-{version}").as_posix() for name in archive.getnames()}
    assert {"pyproject.toml", "build_backend/upscaled_build.py", *(f"{package.name}/{name}" for name in sources)} <= names, names
    assert not any("__pycache__" in name for name in names), names
print(f"pip installed {version} without an index: {len(installed)} files")
