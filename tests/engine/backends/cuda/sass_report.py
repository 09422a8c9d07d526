#!/usr/bin/env python3
"""Reads the machine code of kernels for Hopper: tensor cores that are fed without a gap, no local memory.

Usage: sass_report.py NVCC SOURCE ROOT    (compiles SOURCE for sm_90a; ROOT holds the includes)
Fails if more than MAX_GAP instructions lie between two HGMMA of a unit, if a kernel has no UTMALDG or HGMMA, if it stores
neither by UTMASTG behind STSM nor, thin results, by itself, or if it has LDL or STL. Opcodes are the low 12 bits of an
instruction of 16 bytes.
"""
import pathlib
import struct
import subprocess
import sys
import tempfile

MAX_GAP = 6  # uniform registers of the next operands
OPCODES = {0x9f0: "HGMMA", 0x5b4: "UTMALDG", 0x3ba: "UBLKCP", 0x3b5: "UTMASTG", 0x844: "STSM", 0x983: "LDL", 0x387: "STL", 0x986: "STG"}
NEEDED = ("HGMMA", "UTMALDG")
STORES = ({"UTMASTG", "STSM"}, {"STG"})


def text_sections(elf: bytes):
    """Yields (kernel, code) of a 64-bit ELF file."""
    (start,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", elf, start + i * size) for i in range(count)]
    strings = headers[names][4]
    for name, _, _, _, offset, length in headers:
        begin = strings + name
        text = elf[begin:elf.index(b"\0", begin)].decode()
        if text.startswith(".text."):
            yield text.removeprefix(".text."), elf[offset:offset + length]


def main() -> int:
    nvcc, source, root = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        cubin = pathlib.Path(folder) / "kernels.cubin"
        subprocess.run([nvcc, "-cubin", "-arch=sm_90a", "-std=c++20", "-O3", "--expt-relaxed-constexpr", "-fmad=false", "-w", "-I", root,
                        "-o", cubin, source], check=True)
        kernels = sorted(text_sections(cubin.read_bytes()))
    wrong = [] if kernels else ["no kernel was compiled"]
    for kernel, code in kernels:
        opcodes = [OPCODES.get(struct.unpack_from("<Q", code, at)[0] & 0xFFF) for at in range(0, len(code), 16)]
        counts = {name: opcodes.count(name) for name in OPCODES.values()}
        places = [i for i, name in enumerate(opcodes) if name == "HGMMA"]
        gaps = [b - a - 1 for a, b in zip(places, places[1:])]
        print(kernel, len(opcodes), "instructions,", counts, "between HGMMA:", gaps)
        wrong += [f"{kernel} has no {name}" for name in NEEDED if counts[name] == 0]
        if not any(all(counts[name] for name in way) for way in STORES):
            wrong.append(f"{kernel} stores nothing")
        wrong += [f"{kernel} has {name}" for name in ("LDL", "STL") if counts[name]]
        wrong += [f"{kernel}: {gap} instructions between HGMMA" for gap in gaps if gap > MAX_GAP]
    print("\n".join(wrong) or "all kernels are as they should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
