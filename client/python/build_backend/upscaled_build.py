"""Builds the package with the standard library only, so that `pip install` needs no package index (PEP 517)."""
import base64
import hashlib
import pathlib
import re
import tarfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = "upscaled_client"
TIME = (1980, 1, 1, 0, 0, 0)  # equal sources give equal bytes


def _field(name: str) -> str:
    return re.search(rf'^{name} = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.M)[1]


def _stem() -> str:
    return f"{_field('name').replace('-', '_')}-{_field('version')}"


def _metadata() -> str:
    return (f"Metadata-Version: 2.1\nName: {_field('name')}\nVersion: {_field('version')}\nSummary: {_field('description')}\n"
            f"Requires-Python: {_field('requires-python')}\nLicense: MIT\nDescription-Content-Type: text/markdown\n\n"
            + (ROOT / "README.md").read_text())


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None) -> str:
    """Writes a wheel of the package and returns its name."""
    files = {f"{PACKAGE}/{path.name}": path.read_bytes()
             for path in sorted((ROOT / PACKAGE).iterdir()) if path.suffix in (".py", ".typed")}
    info = f"{_stem()}.dist-info"
    files[f"{info}/METADATA"] = _metadata().encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: upscaled_build\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = [f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}"
              for name, data in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    wheel = f"{_stem()}-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, TIME), data, zipfile.ZIP_DEFLATED)
    return wheel


def build_sdist(sdist_directory, config_settings=None) -> str:
    """Writes an archive of the sources and returns its name."""
    sdist = f"{_stem()}.tar.gz"
    skip = lambda member: None if "__pycache__" in member.name else member
    with tarfile.open(pathlib.Path(sdist_directory) / sdist, "w:gz") as archive:
        for name in ("README.md", "pyproject.toml", "build_backend", PACKAGE):
            archive.add(ROOT / name, f"{_stem()}/{name}", filter=skip)
    return sdist
