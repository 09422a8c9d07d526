#!/usr/bin/python3
"""The server's forecasts against what calls took, as a table and a plot: forecasts.py AUDIT_LOG [...].

Of calls that were admitted and ended, or were given up at their deadline (these took longer than is known).
"""
import bisect
import json
import math
import pathlib
import sys

BANDS_MS = (30, 60, 120, 250, 500, 1000, 2000, 4000)
COLUMNS, ROWS = 72, 28  # of the plot
SHADES = ((1, "."), (2, ":"), (4, "+"), (8, "#"), (16, "@"))  # calls in a cell


def read(path):
    """The audit lines of calls that were admitted and ended, or were given up at their deadline."""
    calls = map(json.loads, pathlib.Path(path).read_text().splitlines())
    return [call for call in calls if call["code"] in ("OK", "DEADLINE_EXCEEDED")]


def complaints(path):
    """Complaints about calls that were given up without an estimate."""
    late = [call for call in read(path) if call["code"] != "OK" and "forecast_ms" not in call]
    return [f"{len(late)} calls were given up for want of an estimate, the first is {late[0]}"] if late else []


def quantile(values, share):
    return sorted(values)[int(share * (len(values) - 1))]


def table(calls):
    """By bands of forecasts: how many, and the time that they took in parts of the forecast."""
    lines = ["| forecast, ms | calls | late | taken / forecast, 5 % | median | 95 % |", "|---|---|---|---|---|---|"]
    for low, high in zip((0,) + BANDS_MS, BANDS_MS + (math.inf,)):
        band = [call for call in calls if low <= call[0] < high]
        if not band:
            continue
        ratios = [total / max(forecast, 1) for forecast, total, _ in band]
        late = sum(not in_time for *_, in_time in band)
        name = f"{low} to {high}" if high < math.inf else f"{low} and more"
        quantiles = " | ".join(f"{quantile(ratios, share):.2f}" for share in (0.05, 0.5, 0.95))
        lines.append(f"| {name} | {len(band)} | {late} | {quantiles} |")
    return "\n".join(lines)


def plot(calls):
    """Taken (up) against forecast (right), both logarithmic. `x` has late calls, `/` is where both are equal."""
    low = math.log(max(1, min(min(call[:2]) for call in calls)))
    high = math.log(max(max(call[:2]) for call in calls)) + 1e-9

    def place(value_ms, cells):
        share = (math.log(max(value_ms, math.exp(low))) - low) / (high - low)
        return min(int(share * cells), cells - 1)

    counts, late = {}, set()
    for forecast, total, in_time in calls:
        cell = place(total, ROWS), place(forecast, COLUMNS)
        counts[cell] = counts.get(cell, 0) + 1
        if not in_time:
            late.add(cell)
    lines = []
    for row in reversed(range(ROWS)):
        line = ""
        for column in range(COLUMNS):
            count = counts.get((row, column), 0)
            empty = "/" if column * ROWS // COLUMNS == row else " "
            shade = SHADES[bisect.bisect(SHADES, (count, "~")) - 1][1] if count else empty
            line += "x" if (row, column) in late else shade
        edge_ms = math.exp(low + (high - low) * row / ROWS)
        lines.append(f"{edge_ms:6.0f} |{line}".rstrip())
    scale = [" "] * (COLUMNS + 6)
    for column in range(0, COLUMNS, 12):
        edge = f"{math.exp(low + (high - low) * column / COLUMNS):.0f}"
        scale[column:column + len(edge)] = edge
    return "\n".join(lines + ["    ms +" + "-" * COLUMNS, " " * 8 + "".join(scale).rstrip()])


def report(path):
    admitted = read(path)
    calls = [(call["forecast_ms"], call["total_ms"], call["code"] == "OK") for call in admitted if "forecast_ms" in call]
    none = f"{len(admitted) - len(calls)} of {len(admitted)} admitted calls had no forecast"
    return f"{table(calls)}\n\n{plot(calls)}\n{none}" if calls else none


if __name__ == "__main__":
    for file in sys.argv[1:]:
        print(report(file))
