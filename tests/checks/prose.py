#!/usr/bin/env python3
"""Checks README, CHANGELOG, SECURITY and docs/: prose.py [UPSCALED].

Banned phrases, lengths of sentences, sizes, a row for each reason of an error, the links of every README and, with the
program, the table of settings. Prints each fault and exits with 1. First it checks a text with known faults, and exits with 2 if it misses
one of them.
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
# Over all pages: the ranges of imgproxy's, Caddy's and libjxl's documentation.
MAX_WORDS_A_SENTENCE, MAX_LONG_SHARE, MAX_PRONOUNS, MIN_YOU_SHARE = 17, 0.20, 0.23, 0.10
LONG_WORDS = 25
PRONOUN = re.compile(r"\b(?:what|who|whose|whom|whoever|whatever|which|that)\b", re.I)

# Name, pattern: each hides an actor or a thing, or is out of use. docs/architecture.md's glossary has better words.
BANNED = [
    ("hidden subject", r"\bwhat (?:comes|goes|they (?:are|have|take)|there (?:is|are|was)|one|others?|nobody|who|has to|cannot|may|must)\b"),
    ("hidden subject", r"(?:\A|[.;:(] |\b(?:of|to|for|by|from|with|or|as|than|tells?|asks?) )[Ww]ho(?:ever|m)? (?:is|was|has|had|can|may|must|asks?|calls?|waits?|sends?)\b"),
    ("whatever", r"\b(?:[Ww]hoever|[Ww]hichever|[Ww]hatever)\b"),
    ("that of", r"(?:\A|[.;:] |, )(?:and )?[Tt](?:hat|hose) of "),
    ("so many", r"\bso (?:many|much|few) (?!(?:that|as|more|better|easier|faster|less)\b)"),
    ("none", r"\b(?:that|what|which|who|there) (?:is|are|was) none\b|\b(?:is|are) none of\b|\b(?:of|for|gives?|takes?|needs?) none\b"),
    ("likewise", r"\b[Ll]ikewise\b"),
    ("of late", r"\bof late\b"),
    ("be it", r"\b(?:, )be (?:it|they) "),
    ("its like", r"\b(?:its|their|and the) like\b"),
    ("under way", r"\bunder way\b|\bon (?:its|their) way\b"),
    ("old words", r"\bfor ever\b|\banew\b|\bhitherto\b|\b[Bb]eside\b|\bat the most\b|\bnow and then\b"),
    ("hears of", r"\b(?:hears?|heard|told|learns?) of\b"),
    ("else", r"; else\b"),
    ("but for", r"\b(?:all|everything|nothing|same), but for\b"),
]
BANNED = [(name, re.compile(pattern)) for name, pattern in BANNED]

BAD_TEXT = """\
The server sends what comes, and likewise
what is not read. A call of late takes so many tiles.

| a | lasts for ever |
| --- | --- |
"""
BAD_NAMES = {"hidden subject", "likewise", "of late", "so many", "old words"}


def units(text: str):
    """Pairs of the first line's number and the text of each paragraph, list item and table cell, without code."""
    fenced, block, begin = False, [], 0
    for number, line in enumerate(text.splitlines() + [""], 1):
        fence = line.lstrip().startswith("```")
        fenced ^= fence
        item = re.match(r"\s*(?:[-*]|\d+\.|>(?: \[!\w+\])?) ", line)
        plain = not (fenced or fence or line.startswith(("    ", "|", "#")) or not line.strip())
        if block and (not plain or item):
            yield begin, " ".join(block)
            block = []
        if plain:
            begin = begin if block else number
            block.append(line[item.end():].strip() if item else line.strip())
        elif line.startswith("|") and not fenced and not re.fullmatch(r"[|\s:-]+", line):
            for cell in re.split(r"(?<!\\)\|", line)[1:-1]:
                yield number, cell.strip()


def without_code(text: str) -> str:
    """`text` with X for code and for links' targets."""
    return re.sub(r"`[^`]*`", "X", re.sub(r"\]\([^)]*\)", "]", text))


def banned(text: str):
    """Pairs of a line and a fault."""
    for number, unit in units(text):
        for name, pattern in BANNED:
            if match := pattern.search(without_code(unit)):
                yield number, name, match[0]


def sentences(text: str):
    """The sentences of paragraphs and items, of three words or more."""
    table = {number for number, line in enumerate(text.splitlines(), 1) if line.startswith("|")}
    for number, unit in units(text):
        if number in table:
            continue
        for sentence in re.split(r"(?<=[.!?:])\s+", without_code(unit)):
            words = re.findall(r"[A-Za-z0-9'][\w'.-]*", sentence)
            if len(words) >= 3:
                yield sentence, len(words)


def density_faults(pages):
    found = [sentence for page in pages for sentence in sentences(page.read_text())]
    count = len(found)
    for name, value, limit in (
            ("words a sentence", sum(words for _, words in found) / count, MAX_WORDS_A_SENTENCE),
            (f"sentences over {LONG_WORDS} words", sum(words > LONG_WORDS for _, words in found) / count, MAX_LONG_SHARE),
            ("relative pronouns a sentence", sum(len(PRONOUN.findall(text)) for text, _ in found) / count, MAX_PRONOUNS)):
        if value > limit:
            yield f"{name}: {value:.2f}; the limit is {limit}"
    you = sum(bool(re.search(r"\byour?\b", text, re.I)) for text, _ in found) / count
    if you < MIN_YOU_SHARE:
        yield f'sentences with "you": {you:.2f}; at least {MIN_YOU_SHARE} are asked for'


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
    found = {name for _, name, _ in banned(BAD_TEXT)}
    if found != BAD_NAMES:
        print(f"the check itself is wrong: it found {sorted(found)} in its bad text, not {sorted(BAD_NAMES)}")
        return 2
    faults = [f"{page.relative_to(ROOT)}:{number}: {name}: \"{match}\""
              for page in PAGES if page.name != "configuration.md"
              for number, name, match in banned(page.read_text())]
    faults += [f"{page.relative_to(ROOT)}: {fault}" for page in ALL_PAGES for fault in link_faults(page)]
    faults += [*density_faults(PAGES), *reason_faults(), *readme_faults()]
    if len(sys.argv) > 1:
        faults += settings_faults(sys.argv[1])
    print("\n".join(faults) or f"{len(PAGES)} pages read well")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
