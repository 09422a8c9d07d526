"""What the server has, for what is deployed to name: settings and metrics."""
import pathlib
import re
import subprocess

METRICS = pathlib.Path(__file__).resolve().parents[2] / "server" / "metrics"
HISTOGRAM = re.compile("_(bucket|sum|count)$")


def flags(upscaled):
    """Those that the program `upscaled` takes."""
    told = subprocess.run([upscaled, "--help"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"(?m)^\s+(--[a-z0-9-]+) ", told))


def flag_of(variable):
    """The flag of a setting that the environment gives as UPSCALED_NAME."""
    return "--" + variable.removeprefix("UPSCALED_").lower().replace("_", "-")


def metrics():
    """Names as its sources and the table for operators have them."""
    told = set(re.findall(r"`((?:upscaled|process)_\w+)", (METRICS / "README.md").read_text()))
    sources = "".join(path.read_text() for path in METRICS.glob("*.cc"))
    return {name for name in told if f'"{name}"' in sources}


def metrics_in(expressions):
    """Those that expressions of Prometheus name; a histogram's by its own name."""
    names = set(re.findall(r"\b(?:upscaled|process)_\w+", " ".join(expressions)))
    return {HISTOGRAM.sub("", name) for name in names}
