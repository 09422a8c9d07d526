#!/usr/bin/env python3
"""The registers and memory that ptxas gave every kernel on every architecture, against a budget.

Usage: compile_report.py BUDGET OBJECT...    (reads OBJECT.ptxas where there is one, see keep_ptxas.sh)
BUDGET has lines "KERNEL REGISTERS". Fails on spills and stack frames (arrays in local memory), on more registers than
that, or others for "KERNEL =REGISTERS", on kernels and lines without each other, and where ptxas warns of lost
performance (wgmma in turns, setmaxnreg ignored).
"""
import pathlib
import re
import subprocess
import sys

ENTRY = re.compile(r"Compiling entry function '(\S+)' for '(\S+)'")
STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")
LOST = "Potential Performance Loss"
KERNEL = re.compile(r"(\w+(?:<[^()]*>)?)\(")


def kernel_name(mangled: str) -> str:
    """'Conv3x3MmaKernel<64>' of a mangled entry."""
    full = subprocess.run(["c++filt", mangled], capture_output=True, text=True, check=True).stdout
    plain = full.replace("(anonymous namespace)::", "").replace("upscaled::cuda::", "").removeprefix("void ")
    return KERNEL.match(plain)[1].replace(" ", "")


def read(path: pathlib.Path):
    """Yields (kernel, architecture, registers, shared bytes, stack bytes, spilled bytes)."""
    entry = stack = None
    for line in path.read_text().splitlines():
        if match := ENTRY.search(line):
            entry = kernel_name(match[1]), match[2]
        elif match := STACK.search(line):
            stack = int(match[1]), int(match[2]) + int(match[3])
        elif (match := USED.search(line)) and entry and stack:
            shared = SHARED.search(line)
            yield *entry, int(match[1]), int(shared[1]) if shared else 0, *stack
            entry = stack = None


def is_within(registers: int, budget: str) -> bool:
    return registers == int(budget[1:]) if budget.startswith("=") else registers <= int(budget)


def main() -> int:
    lines = (line.split("#")[0].split() for line in pathlib.Path(sys.argv[1]).read_text().splitlines())
    budget = {fields[0]: fields[1] for fields in lines if fields}
    paths = [path for name in sys.argv[2:] if (path := pathlib.Path(name + ".ptxas")).exists()]
    rows = sorted(row for path in paths for row in read(path))
    wrong = [] if rows else ["no object has a .ptxas file"]
    wrong += [f"{path.name}: {line}" for path in paths for line in path.read_text().splitlines() if LOST in line]
    print(f"{'kernel':40} {'for':8} registers  shared  stack  spilled")
    for kernel, architecture, registers, shared, stack, spilled in rows:
        print(f"{kernel:40} {architecture:8} {registers:9} {shared:7} {stack:6} {spilled:8}")
        if spilled or stack:
            wrong.append(f"{kernel} for {architecture} spills {spilled} bytes, and has {stack} on the stack")
        if kernel not in budget:
            wrong.append(f"{kernel} has no line in {sys.argv[1]}")
        elif not is_within(registers, budget[kernel]):
            wrong.append(f"{kernel} for {architecture} takes {registers} registers, the budget is {budget[kernel]}")
    wrong += [f"{kernel} of {sys.argv[1]} was not compiled" for kernel in budget.keys() - {row[0] for row in rows}]
    print("\n".join(dict.fromkeys(wrong)) or "all kernels are within their budgets")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
