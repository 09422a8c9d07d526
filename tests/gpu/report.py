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


def read(path):
    return path.read_text() if path.exists() else ""


def load_lines(path):
    """A bench's lines: those of networks, those of errors, and what else it says."""
    report = {"networks": [], "errors": []}
    for line in filter(None, map(parse, read(path).splitlines())):
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


def max_clock_ghz(card):
    """The highest clock of the multiprocessors, by nvidia-smi; an H100's without it."""
    rows = [line.split(", ") for line in card.splitlines()]
    for head, values in zip(rows, rows[1:]):
        for name, value in zip(head, values):
            if name.startswith("clocks.max.sm") and value.split()[0].isdigit():
                return int(value.split()[0]) / 1000
    return 1.98


def decisions(probes, card):
    """Yields (question, measured, answer) for each open question that the prototype's cases decide."""
    by_name = {}
    for probe in probes:  # a wrong case has a line for each of its first wrong values
        by_name.setdefault(probe["case"], {}).update(probe)
    wrong = [name for name, probe in by_name.items() if probe.get("wrong") or "error" in probe]
    yield "does the emulator believe the right things?", f"{len(by_name)} cases, wrong: {', '.join(wrong) or 'none'}", \
        "look at the first wrong one, then at emulator.cc" if wrong else "yes"
    rate = max((probe["box"][0] * probe["box"][1] * 32 / probe["ns_a_box"] / max_clock_ghz(card)
                for probe in probes if probe.get("ns_a_box")), default=None)
    if rate:
        yield "boxes 10 or 18 wide?", f"{rate:.1f} B/clk at best", "10" if rate >= 12 else "18"
    tflops = {n: max((probe["tflops"] for probe in probes if probe.get("n") == n and "tflops" in probe), default=None) for n in (128, 256)}
    if all(tflops.values()):
        near = tflops[128] >= 0.95 * tflops[256]
        yield "heights of tiles?", f"N = 128: {tflops[128]:.0f}, N = 256: {tflops[256]:.0f} TFLOP/s", \
            "by rounds alone (WsVariant::Clocks without kProductClocks)" if near else "by rounds x height, as now"
    yield from compared(by_name, "dependent launch?", lambda name: name.endswith("_d1"), lambda name: name[:-1] + "0", "build it", "leave it out")
    yield from compared(by_name, "planes stored one by one?", lambda name: "Half_" in name, lambda name: name.replace("Half_", "_"),
                        "always: delete the variants with two", "only without room for two, as now")
    yield from compared(by_name, "RRDB's convolutions in pairs (design, 3.2)?", lambda name: name.startswith("Pair23_96-32"),
                        lambda name: name.replace("Pair23_96-32", "Ping25_64-64"), "", "", per_work=True)


def compared(by_name, question, is_new, name_of_old, yes, no, per_work=False):
    """The median of time, or of TFLOP/s, of cases beside their counterparts."""
    key = "tflops" if per_work else "us"
    pairs = [(by_name[name][key], by_name[name_of_old(name)][key]) for name in by_name
             if is_new(name) and by_name[name].get(key) and by_name.get(name_of_old(name), {}).get(key)]
    if not pairs:
        return
    if per_work:
        new, old = pairs[0]
        yield question, f"pairs {new:.0f}, full rows {old:.0f} TFLOP/s", "worth it" if new < 0.87 * old else "little to gain: 13 % fewer products"
        return
    ratios = sorted(new / old for new, old in pairs)
    ratio_ = ratios[len(ratios) // 2]
    yield question, f"{ratio_:.2f} of the time without, {len(pairs)} cases", yes if ratio_ < 0.99 else no


def main():
    logs, out = map(pathlib.Path, sys.argv[1:3])
    cuda, peer = load_lines(logs / "cuda.jsonl"), load_lines(logs / "torch.jsonl")
    # With one proven kernel more each time.
    proven = {path.stem.removeprefix("cuda-"): load_lines(path)
              for path in sorted(logs.glob("cuda-*.jsonl"), key=lambda path: path.stat().st_mtime)}
    probes = [line for line in map(parse, read(logs / "probes.jsonl").splitlines()) if line and "case" in line]
    service_file = logs / "service.json"
    service = parse(service_file.read_text()) if service_file.exists() else None
    lines = list(summary(cuda, peer, service))
    for kernel, report in proven.items():
        lines += ["", f"With `{kernel}`" + (" too:" if kernel != next(iter(proven)) else ":"), "", *table(HEAD, networks(report, peer))]
    if probes:
        lines += ["", "What the probes decide:", "", *table(["question", "measured", "answer"], decisions(probes, read(logs / "card.txt")))]
    for network in cuda["networks"]:
        lines += steps(network)
    (out / "table.md").write_text("\n".join(lines) + "\n")
    (out / "results.json").write_text(json.dumps({"cuda": cuda, "proven": proven, "torch": peer, "service": service}, indent=2) + "\n")


if __name__ == "__main__":
    main()
