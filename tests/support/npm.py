"""Packages of npm for a test."""
import shutil
import subprocess

TIMEOUT_S = 180


def install(sources, folder):
    """Copies the folder `sources`, which has a package-lock.json, to `folder` and installs what it names there, so that the
    sources stay clean; at once where that was done before. Returns why it cannot be done, or nothing."""
    if shutil.which("npm") is None:
        return "no npm"
    shutil.copytree(sources, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules", "__pycache__"))
    lock = (sources / "package-lock.json").read_bytes()
    installed = folder / "installed-lock.json"
    if installed.exists() and installed.read_bytes() == lock:
        return ""
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    try:
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return f"npm ci took more than {TIMEOUT_S} s"
    if result.returncode != 0:
        return "npm ci failed: " + result.stderr.strip()[-500:]
    installed.write_bytes(lock)
    return ""
