#!/usr/bin/env python3
"""Refuses comments that begin with "Of" or "What" instead of a full noun phrase, and words that better ones have replaced.

Lines that go on with a comment may begin with any word. Run from anywhere; prints each fault and exits with 1. Before
that it checks a text with known faults, and exits with 2 when it does not find exactly these.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("client", "cmake", "deploy", "engine", "proto", "server", "tests")
SUFFIXES = {".cc", ".cfg", ".cl", ".cmake", ".conf", ".css", ".cu", ".cuh", ".h", ".html", ".inc", ".js", ".md", ".mjs",
            ".proto", ".py", ".service", ".sh", ".ts", ".yaml", ".yml"}
PASSED_OVER = {"tests/bench/RESULTS.md",  # which tells of measurements in the words of their time
               "tests/checks/words.py"}

COMMENT = re.compile(r"\s*(//+|#|/?\*+|<!--)\s*\S")
BEGINNING = re.compile(r'\s*(//+|#|/\*+|<!--|""")\s*(Of|What)\b')
TRAILING = re.compile(r".*\S  +(//|#) (Of|What)\b")
# Given up -> in use. The words are whole ones, or parts of an identifier that begin with a capital.
REPLACED = {
    r"k(Least|Most)(?=[A-Z])": "kMin, kMax",
    r"TakeOut(?![a-z])": "quarantine",
    r"DeviceKeeper(?![a-z])": "DeviceSupervisor",
    r"DeviceKind(?![a-z])": "DeviceClass",
    r"Tickets?(?![a-z])": "Reservation, Place",
    r"(TapSum|\btap_?sums?\b)": "shift_add",
    r"(KeptTile|\bkept tiles?\b|TileMemory|\btile memory\b)": "activation cache",
    r"(PoolingRun|\bpooling runs?\b)": "global-average-pooling pass",
    r"\b[Cc]ont(est|ender)s?\b": "interleaved benchmark, candidate",
    r"\b[Ss]urveys?\b": "enumeration",
    r"\b[Rr]ims?\b": "halo",
    r"\bboth doors\b": "both interfaces",
    r"\b[Ff]or people\b": "human-readable",
    r"\b[Kk]inds? of devices?\b|\bdevice kinds?\b": "device class",
}

BAD_TEXT = """\
// Of a layer's result.
int Channels();
int kept;  // What stays.
// The images, and
// Of all of them the first. What lies there.
constexpr int kMostTiles = 3;
int almost = kMaxTiles;  // of a ticket, with a rim
"""
BAD_LINES = [1, 3, 6, 7]


def faults(text: str, has_comments: bool = True):
    """Pairs of a line's number, from 1, and what is wrong with it."""
    in_comment = False
    for number, line in enumerate(text.splitlines(), 1):
        begins = None if in_comment else BEGINNING.match(line)
        if has_comments and (match := begins or TRAILING.match(line)):
            yield number, f'a comment begins with "{match[2]}": begin with a noun phrase'
        for pattern, better in REPLACED.items():
            if match := re.search(pattern, line):
                yield number, f'"{match[0]}" is called {better}'
        in_comment = COMMENT.match(line) is not None


def is_checked(path: pathlib.Path) -> bool:
    name = path.relative_to(ROOT).as_posix()
    return (path.suffix in SUFFIXES or path.name == "CMakeLists.txt") and "node_modules" not in path.parts and name not in PASSED_OVER


def main() -> int:
    found = [number for number, _ in faults(BAD_TEXT)]
    if found != BAD_LINES:
        print(f"the check itself is wrong: it found faults in lines {found} of its bad text, not {BAD_LINES}")
        return 2
    wrong = [f"{path.relative_to(ROOT)}:{number}: {fault}"
             for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*")) if path.is_file() and is_checked(path)
             for number, fault in faults(path.read_text(errors="replace"), path.suffix != ".md")]
    print("\n".join(wrong) or "all comments begin with noun phrases, in words that are in use")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
