"""Settings and metrics of the programs, for what is deployed to name."""
import pathlib
import re
import subprocess

METRICS = pathlib.Path(__file__).resolve().parents[2] / "server" / "telemetry"
HISTOGRAM = re.compile("_(bucket|sum|count)$")


def told(program):
    """The answer to --help."""
    return subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout


def flags(program):
    """Those that the program takes."""
    return set(re.findall(r"(?m)^\s+(?:-\w,)?(--[a-z0-9-]+)", told(program)))


def default(program, flag):
    """The value that the program takes where `flag` is not given, as --help has it."""
    return re.search(rf"(?m)^\s+{flag} [^\[]*\[(.*)\]$", told(program))[1]


def drain_s(program):
    """The default of --drain-timeout."""
    return int(re.search(r"--drain-timeout (?:SECONDS=|TIME .*\[)(\d+)", told(program))[1])


def flag_of(variable):
    """The flag of a setting that the environment gives as UPSCALED_NAME."""
    return "--" + variable.removeprefix("UPSCALED_").lower().replace("_", "-")


def metrics():
    """Names as its sources and the table for operators have them."""
    told = set(re.findall(r"`((?:upscaled|process)_\w+)", (METRICS / "metrics.md").read_text()))
    sources = "".join(path.read_text() for path in METRICS.glob("*.cc"))
    return {name for name in told if f'"{name}"' in sources}


def metrics_in(expressions):
    """Those that expressions of Prometheus name; a histogram's by its own name."""
    names = set(re.findall(r"\b(?:upscaled|process)_\w+", " ".join(expressions)))
    return {HISTOGRAM.sub("", name) for name in names}
