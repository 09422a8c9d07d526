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
    """(forecast_ms, total_ms, whether it ended in time) of each call."""
    calls = []
    for line in pathlib.Path(path).read_text().splitlines():
        call = json.loads(line)
        if "forecast_ms" in call and call["code"] in ("OK", "DEADLINE_EXCEEDED"):
            calls.append((call["forecast_ms"], call["total_ms"], call["code"] == "OK"))
    return calls


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
    calls = read(path)
    return f"{table(calls)}\n\n{plot(calls)}" if calls else "no call had a forecast"


if __name__ == "__main__":
    for file in sys.argv[1:]:
        print(report(file))
