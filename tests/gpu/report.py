#!/usr/bin/env python3
"""Joins what run.sh measured into one table (Markdown) and one JSON file; what failed is listed.

Usage: report.py LOGS OUT. LOGS: a folder with cuda.jsonl, torch.jsonl and service.json, as far as they could be
measured. OUT: where table.md and results.json go.
"""
import json
import pathlib
import sys


def parse(text):
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return None  # cut off


def load_lines(path):
    """A bench's lines: those of networks, those of errors, and what else it says."""
    report = {"networks": [], "errors": []}
    for line in filter(None, map(parse, path.read_text().splitlines() if path.exists() else [])):
        if "error" in line:
            report["errors"].append(line)
        elif "model" in line:
            report["networks"].append(line)
        else:
            report.update(line)
    return report


def text(value, form, factor=1):
    return "" if value is None else format(value * factor, form)


def ratio(a, b, form=".2f"):
    return text(a / b, form) if a and b else ""


def short(model):
    return model.removeprefix("random:")


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]


HEAD = ["network", "precision", "ms", "TFLOP/s", "of GEMM", "PyTorch fp16 ms", "times as fast", "MiB"]


def networks(cuda, peer):
    """Ours, in fp16 beside the peer's; then what the peer alone could run."""
    peers = {network["model"]: network["seconds"] for network in peer["networks"]}
    gemm = peer.get("gemm_fp16_flops")
    for network in cuda["networks"]:
        fast = network["precision"] == "fast"
        seconds, gflops = network["seconds"], network["gflops"]
        other = peers.pop(network["model"], None) if fast else None
        yield [short(network["model"]), network["precision"], text(seconds, ".3f", 1e3), text(gflops, ".1f", 1e-3),
               ratio((gflops or 0) * 1e9, gemm) if fast else "", text(other, ".3f", 1e3), ratio(other, seconds),
               text(network["memory_mib"], ".0f")]
    for model, other in peers.items():
        yield [short(model), "fast", "", "", "", text(other, ".3f", 1e3), "", ""]


def clients(service):
    for row in service:
        load = row["load"]
        yield [row["clients"], text(load["requests_per_s"], ".1f"),
               *(text(load["latency_ms"][p], ".2f") for p in ("p50", "p99")), sum(load["errors"].values())]


def failures(cuda, peer):
    for bench, report in (("cuda-bench", cuda), ("PyTorch", peer)):
        for error in report["errors"]:
            what = ", ".join(short(error[key]) for key in ("model", "precision") if key in error)
            yield f"- {bench}{', ' if what else ''}{what}: {' '.join(error['error'].split())[:300]}"


def steps(network):
    yield from ["", f"## {short(network['model'])}, {network['precision']}", ""]
    yield from table(["layer", "shape", "kernel", "us", "GFLOP/s", "share"],
                     [[step["layer"], step["shape"], step["kernel"], text(step["seconds"], ".1f", 1e6),
                       text(step["gflops"], ".0f"), ratio(step["seconds"], network["seconds"], ".1%")]
                      for step in network["steps"]])


def summary(cuda, peer, service):
    yield from ["# The cuda backend, one 1920x1080 result", "", f"{cuda.get('device', 'No device measured')}.",
                f"Copy on the device: {text(cuda.get('copy_bytes_per_second'), '.2f', 1e-12) or '?'} TB/s, "
                "read and written.",
                f"fp16 matrix product of 8192: {text(peer.get('gemm_fp16_flops'), '.0f', 1e-12) or '?'} TFLOP/s.",
                f"PyTorch {peer.get('torch', 'was not measured')}: eager layers in one CUDA graph, fp16, channels_last.",
                "Sums of global poolings (cunet) that no convolution adds up are added; the host's part between runs is not.",
                ""]
    yield from table(HEAD, networks(cuda, peer))
    if service:
        yield from ["", "Raw 960x540 tiles through the server, fp16:", ""]
        yield from table(["clients", "images/s", "median ms", "p99 ms", "errors"], clients(service))
    if failed := list(failures(cuda, peer)):
        yield from ["", "Failed:", "", *failed]


def main():
    logs, out = map(pathlib.Path, sys.argv[1:3])
    cuda, peer = load_lines(logs / "cuda.jsonl"), load_lines(logs / "torch.jsonl")
    # With one proven kernel more each time.
    proven = {path.stem.removeprefix("cuda-"): load_lines(path)
              for path in sorted(logs.glob("cuda-*.jsonl"), key=lambda path: path.stat().st_mtime)}
    service_file = logs / "service.json"
    service = parse(service_file.read_text()) if service_file.exists() else None
    lines = list(summary(cuda, peer, service))
    for kernel, report in proven.items():
        lines += ["", f"With `{kernel}`" + (" too:" if kernel != next(iter(proven)) else ":"), "", *table(HEAD, networks(report, peer))]
    for network in cuda["networks"]:
        lines += steps(network)
    (out / "table.md").write_text("\n".join(lines) + "\n")
    (out / "results.json").write_text(json.dumps({"cuda": cuda, "proven": proven, "torch": peer, "service": service}, indent=2) + "\n")


if __name__ == "__main__":
    main()
