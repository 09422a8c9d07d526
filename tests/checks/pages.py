#!/usr/bin/env python3
"""Checks README, CHANGELOG, SECURITY and docs/: pages.py [UPSCALED].

Sizes, a row for each reason of an error, the links of every README and, with the program, the table of settings.
prose.py checks how they read. Prints each fault and exits with 1.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / name for name in ("README.md", "CHANGELOG.md", "SECURITY.md")] + sorted((ROOT / "docs").glob("*.md"))
ALL_PAGES = PAGES + [page for page in sorted(ROOT.glob("*/**/README.md")) + [ROOT / "CONTRIBUTING.md"]
                     if not {"build", "node_modules"} & set(page.relative_to(ROOT).parts)]
MAX_README_BYTES = 9000
MAX_CELL_CHARACTERS = 120


def link_faults(page: pathlib.Path):
    text = page.read_text()
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        if re.match(r"\w+:", target):
            continue
        file = (page.parent / path) if path else page
        if not file.exists():
            yield f"{target}: no such file"
        elif anchor and file.suffix == ".md":
            heads = re.findall(r"^#+ (.*)$", file.read_text(), re.M)
            names = {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}
            if anchor not in names:
                yield f"{target}: no such heading"


def reason_faults():
    proto = (ROOT / "proto/upscale/v1/upscale.proto").read_text()
    reasons = set(re.findall(r"^  ERROR_REASON_(\w+) = [1-9]", proto, re.M))
    rows = set(re.findall(r"^\| `([A-Z_]+)` \|", (ROOT / "docs/troubleshooting.md").read_text(), re.M))
    for reason in sorted(reasons ^ rows):
        yield f"docs/troubleshooting.md: {reason} is " + ("missing" if reason in reasons else "no reason")


def readme_faults():
    readme = ROOT / "README.md"
    text = readme.read_text()
    if len(text.encode()) > MAX_README_BYTES:
        yield f"README.md has {len(text.encode())} bytes; the limit is {MAX_README_BYTES}"
    for line in text.splitlines():
        for cell in re.split(r"(?<!\\)\|", line)[1:-1] if line.startswith("|") else ():
            if len(re.sub(r"\]\([^)]*\)", "]", cell)) > MAX_CELL_CHARACTERS:
                yield f"README.md: a cell has more than {MAX_CELL_CHARACTERS} characters: {cell.strip()[:60]}..."
    for page in PAGES:
        if page.parent.name == "docs" and f"docs/{page.name}" not in text:
            yield f"README.md does not link docs/{page.name}"


def settings_faults(program: str):
    told = subprocess.run([program, "--help-markdown"], capture_output=True, text=True, check=True).stdout.strip()
    if told not in (ROOT / "docs/configuration.md").read_text():
        yield "docs/configuration.md: its table is not the one of upscaled --help-markdown"


def main() -> int:
    faults = [f"{page.relative_to(ROOT)}: {fault}" for page in ALL_PAGES for fault in link_faults(page)]
    faults += [*reason_faults(), *readme_faults()]
    if len(sys.argv) > 1:
        faults += settings_faults(sys.argv[1])
    print("\n".join(faults) or f"{len(PAGES)} pages are whole")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
