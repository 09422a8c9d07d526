#!/usr/bin/env python3
"""Joins what run.sh measured into one table (Markdown) and one JSON file.

Usage: report.py OUT, a folder with cuda.json and, as far as they could be measured, torch.json and service.json.
"""
import json
import pathlib
import sys


def load(path):
    try:
        return json.loads(path.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]


def networks(cuda, peer):
    peers = {network["model"]: network["seconds"] for network in peer["networks"]} if peer else {}
    gemm = peer["gemm_fp16_flops"] if peer else None
    for network in cuda["networks"]:
        fast = network["precision"] == "fast"
        seconds, other = network["seconds"], peers.get(network["model"]) if fast else None
        yield [network["model"].removeprefix("random:"), network["precision"], f"{seconds * 1e3:.3f}",
               f"{network['gflops'] / 1e3:.1f}",
               f"{network['gflops'] * 1e9 / gemm:.2f}" if gemm and fast else "",
               f"{other * 1e3:.3f}" if other else "", f"{other / seconds:.2f}" if other else "",
               f"{network['memory_mib']:.0f}"]


def main():
    out = pathlib.Path(sys.argv[1])
    cuda, peer, service = (load(out / name) for name in ("cuda.json", "torch.json", "service.json"))
    if cuda is None:
        print(f"report.py: no {out / 'cuda.json'}", file=sys.stderr)
        return 1
    lines = ["# The cuda backend, one 1920x1080 result", "", cuda["device"] + "."]
    lines.append(f"Copy on the device: {cuda['copy_bytes_per_second'] * 1e-12:.2f} TB/s, read and written.")
    if peer:
        lines.append(f"fp16 matrix product of 8192: {peer['gemm_fp16_flops'] * 1e-12:.0f} TFLOP/s "
                     f"(PyTorch {peer['torch']}).")
    lines += ["", *table(["network", "precision", "ms", "TFLOP/s", "of GEMM", "PyTorch fp16 ms", "times as fast",
                          "MiB"], networks(cuda, peer))]
    if service:
        lines += ["", "Raw 960x540 tiles through the server, fp16:", "",
                  *table(["clients", "pictures/s", "median ms", "p99 ms"],
                         [[row["clients"], f"{row['load']['requests_per_s']:.1f}"] +
                          [f"{row['load']['latency_ms'][p]:.2f}" for p in ("p50", "p99")] for row in service])]
    for network in cuda["networks"]:
        lines += ["", f"## {network['model'].removeprefix('random:')}, {network['precision']}", ""]
        lines += table(["layer", "shape", "kernel", "us", "GFLOP/s", "share"],
                       [[step["layer"], step["shape"], step["kernel"], f"{step['seconds'] * 1e6:.1f}",
                         f"{step['gflops']:.0f}", f"{step['seconds'] / network['seconds']:.1%}"]
                        for step in network["steps"]])
    (out / "table.md").write_text("\n".join(lines) + "\n")
    (out / "results.json").write_text(json.dumps({"cuda": cuda, "torch": peer, "service": service}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
