#!/usr/bin/env python3
"""Checks what the compiler and the linker were told in the ELF files of finished programs and libraries: hardening.py FILE...

CET is looked for in the code, as startup files of Debian 12 have none and the linker then leaves its note out."""
import pathlib
import re
import subprocess
import sys

ENDBR64 = b"\xf3\x0f\x1e\xfa"
OTHERS_ENDBR64 = 10  # at most so many are in startup files
FEW_CALLS = 1 << 20  # bytes of a program that may have no call that _FORTIFY_SOURCE replaces


def read(file):
    return subprocess.run(["readelf", "--file-header", "--program-headers", "--dynamic", "--dyn-syms", "--wide", file], check=True,
                          capture_output=True, text=True).stdout


def lacks(file):
    """Names of all that the file lacks."""
    told, data = read(file), pathlib.Path(file).read_bytes()
    library = ".so" in pathlib.Path(file).name
    expected = {
        "a place of its own in memory at each start (PIE)": r"Type:\s+DYN",
        "tables of addresses that are read-only (RELRO)": r"GNU_RELRO",
        "tables that are filled at the start (BIND_NOW)": r"\bNOW\b",
        "a stack without code": r"GNU_STACK\s.*\sRW\s",
        "guards on the stack": r"__stack_chk_fail",
    }
    if not library and len(data) > FEW_CALLS:
        expected["checked copies (_FORTIFY_SOURCE)"] = r"\b__\w+_chk\b"
    if not library:
        expected["checked preconditions (_GLIBCXX_ASSERTIONS)"] = r"__glibcxx_assert_fail"
    missing = [name for name, pattern in expected.items() if not re.search(pattern, told)]
    if "X86-64" in told and data.count(ENDBR64) <= OTHERS_ENDBR64:
        missing.append("targets of indirect jumps (CET)")
    return missing


def main():
    wrong = [f"{file}: lacks {name}" for file in sys.argv[1:] for name in lacks(file)]
    print("\n".join(wrong) or f"{len(sys.argv) - 1} files are hardened")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
