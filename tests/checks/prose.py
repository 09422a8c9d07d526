#!/usr/bin/env python3
"""Checks how Markdown, comments, help, log lines and errors read: prose.py [--count | --shrink].

Refuses phrases that hide an actor or a thing, and averages of pages, room READMEs or comments outside their limits.
prose_allowed.txt lists the files with phrases from before this check, and how many each may have. The numbers only shrink:
--shrink lowers them to today's. --count prints the averages. Prints each fault and exits with 1. First it checks a
text with known faults, and exits with 2 if it misses one of them.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ALLOWED = pathlib.Path(__file__).with_name("prose_allowed.txt")
TELLING = ("client/", "server/")  # programs' folders: their literals are read by people
FOLDERS = ("client", "cmake", "deploy", "docs", "engine", "proto", "server", "tests")
CODE = {".cc", ".cmake", ".cu", ".cuh", ".h", ".py", ".sh"}
PASSED_OVER = {"tests/bench/RESULTS.md",      # measurements in the words of their time
               "docs/configuration.md",       # its table is the program's
               "tests/checks/prose.py"}
PRONOUN = re.compile(r"\b(?:what|who|whose|whom|whoever|whatever|which|that)\b", re.I)

# Limits by kind of text: words a sentence, share of sentences over 25 words, relative pronouns a sentence, and the least
# share of sentences with "you". Pages and READMEs of rooms keep to the range of imgproxy's, Caddy's and libjxl's
# documentation, comments to that of their code.
LONG_WORDS = 25
LIMITS = {
    "pages": (17, 0.20, 0.23, 0.16),
    "rooms": (17, 0.20, 0.23, 0),
    "comments": (15, 0.20, 0.15, 0),
}

# Name, kind of text, pattern. docs/architecture.md's glossary has better words.
BANNED = [
    ("begins-with-clause", "comment",
     r"\A(?:That (?:of|a|an|the|it|which)|Those (?:of|that|which|who)|Who|Whose|Whom|What (?!type|color)|Of (?!course)|For one (?:that|which)|Whoever|In (?:which|what))\b"),
    ("hidden-subject-what", "all",
     r"\bwhat (?:comes|goes|they (?:are|have|take)|there (?:is|are|was)|one|others?|nobody|somebody|another|clients?|who|has to|cannot|may|must)\b|(?:\b(?:[Ff]or|[Ww]ith|[Bb]y|[Ff]rom|[Bb]ehind|[Bb]eside|[Bb]efore|[Aa]fter|[Oo]nly|[Aa]ll) what|(?:\A|[.;:] )[Ww]hat) (?:is|was|are|were|has|had|can|it|they|the|a|an|this)\b(?! (?:happening|going|the difference|is|are|purpose))(?![^.]*\?)"),
    ("hidden-subject-who", "all",
     r"(?:(?:\A|[.;:(] )|\b(?:of|to|for|by|from|with|or|as|than|tells?|asks?|but) )[Ww]ho(?:ever|m)? (?!(?:want|wish|like|would|are|were|have|use|prefer)\b)(?:is|was|has|had|can|may|must|asks?|calls?|waits?|reads?|sends?|takes?|comes?|gets?|pays?|joins?|loaded|wants?|breaks?|does|knows?|works?|runs?|prefers?|preferred|else|they|it|there)\b"),
    ("whatever", "all",
     r"\b(?:[Ww]hoever|[Ww]hichever(?! (?:is|comes) )|[Ww]hatever (?!(?:comes|is|was|we|you|mechanism|reason)\b))"),
    ("that-of", "all",
     r"(?:\A|[.;:] |, )(?:and )?[Tt](?:hat|hose) of (?!the (?:current|input)\b)"),
    ("so-many", "all",
     r"\bso (?:many|much|few) (?!(?:that|as|more|better|easier|faster|less)\b)"),
    ("none-clause", "all",
     r"\b(?:that|what|which|who|where there|there) (?:is|are|was) none\b(?! (?:set|left))|\b(?:is|are) none of (?:ours|these|those|them)\b|\b(?:of|for|gives?|takes?|needs?) none\b"),
    ("likewise", "all",
     r"\b[Ll]ikewise\b"),
    ("of-late", "all",
     r"\bof late\b"),
    ("be-it", "all",
     r"\b(?:, )be (?:it|they) (?:a|an|the|by|of|for|in|on|with|one|another|\d)"),
    ("alone-for-only", "all",
     r"(?<!let )(?<!leave )(?<!left )(?<![-\w])(?<!runs )(?<!run )\balone\b(?! (?:is|are|can|cannot|does|will|would|needs?|takes?)\b)"),
    ("its-like", "all",
     r"\b(?:its|their|and the) like\b"),
    ("under-way", "all",
     r"\bunder way\b|\bon (?:its|their) way\b"),
    ("where-for-if", "all",
     r"\b[Ww]here (?:there (?:is|are|was) (?:none|no|one|nothing)|that (?:is|has|was)|nobody|nothing|somebody|neither|none (?:is|are)|it has (?!been)|they have (?!been))\b"),
    ("old-words", "all",
     r"\bfor ever\b|\banew\b|\bhitherto\b|\bby and by\b|\bas ever\b|\b[Bb]eside\b|\bat the most\b|\bnow and then\b|\bone's own\b"),
    ("hears-of", "all",
     r"\b(?:hears?|heard|told|knows|learns?|speaks?) of\b|\bhears? (?:from|about)?\b(?= (?:why|that|when|of|once|the))"),
    ("nobody", "comment",
     r"\b[Nn]obody\b|\b[Ss]omebody\b|\b[Aa]nybody\b"),
    ("a-X-a-Y", "all",
     r"\b(?:a|one) (?:file|folder|line|hash|thread|process|kernel|set|key|row|byte|task|object|result|packet|worker|part|copy) an? [a-z]+\b(?! (?:of|time|call (?:to|of))\b)"),
    ("else-for-otherwise", "all",
     r"; else\b|, else (?:as|null|of|by|its|what|the (?:first|system|caller))\b"),
    ("but-for", "all",
     r"\b(?:all|everything|nothing|same|anybody|thread safe), but for\b|, but for (?:the )?(?:one|those|that|its|what)\b"),
]
BANNED = [(name, kind, re.compile(pattern)) for name, kind, pattern in BANNED]

BAD_TEXT = """\
The server sends what comes, and likewise
what is not read. A call of late takes so many tiles.

| a | lasts for ever |
| --- | --- |
"""
BAD_NAMES = {"hidden-subject-what", "likewise", "of-late", "so-many", "old-words"}
BAD_TOLD = 'return Error("the result is " "read by nobody");  // nobody'
BAD_COMMENT = "int x;\n// That of the image, which\n// nobody reads.\n"
BAD_COMMENT_NAMES = {"begins-with-clause", "that-of", "nobody"}


def markdown_units(text: str):
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


def comment_units(text: str):
    """Pairs of the first line's number and the text of each block of comment lines, without the marks."""
    block, begin = [], 0
    for number, line in enumerate(text.splitlines() + [""], 1):
        comment = re.match(r"\s*(?://+|#)(?!!| *(?:include|pragma|if|ifn?def|endif|define|else|undef|error)\b)\s?(.*)$", line)
        if comment:
            begin = begin if block else number
            block.append(comment[1])
        elif block:
            yield begin, " ".join(block)
            block = []


def told_texts(text: str):
    """Pairs of a line's number and a text of three words or more that code tells: neighbouring literals as one."""
    code = re.sub(r"^\s*//[^\n]*", "", text, flags=re.M)
    for match in re.finditer(r'(?:"(?:\\.|[^"\\\n])*"\s*)+', code):
        told = "".join(re.findall(r'"((?:\\.|[^"\\\n])*)"', match[0]))
        if len(told.split()) >= 3:
            yield code.count("\n", 0, match.start()) + 1, told


def kind_of(path: pathlib.Path) -> str:
    if path.suffix != ".md":
        return "comments"
    page = path.parent == ROOT / "docs" or path.name in ("CHANGELOG.md", "SECURITY.md") or path == ROOT / "README.md"
    return "pages" if page else "rooms"


def units(text: str, kind: str):
    return comment_units(text) if kind == "comments" else markdown_units(text)


def hits(text: str, kind: str):
    """Triples of a line, a rule's name and the phrase."""
    for number, unit in units(text, kind):
        for name, only, pattern in BANNED:
            if (only == "all" or kind == "comments") and (match := pattern.search(without_code(unit))):
                yield number, name, match[0]


def told_hits(text: str):
    """As `hits`, of a program's help, log lines and errors."""
    for number, told in told_texts(text):
        for name, only, pattern in BANNED:
            if (only == "all" or name == "nobody") and (match := re.search(pattern, told)):
                yield number, name, match[0]


def sentences(text: str, kind: str):
    """The sentences of paragraphs, items and comments, of three words or more, with their numbers of words."""
    table = set() if kind == "comments" else {n for n, line in enumerate(text.splitlines(), 1) if line.startswith("|")}
    for number, unit in units(text, kind):
        for sentence in re.split(r"(?<=[.!?:])\s+", without_code(unit)) if number not in table else ():
            words = re.findall(r"[A-Za-z0-9'][\w'.-]*", sentence)
            if len(words) >= 3:
                yield sentence, len(words)


def averages(texts, kind: str):
    """Number of sentences; then the four values that LIMITS bounds, and the share of sentences over 35 words."""
    found = [sentence for text in texts for sentence in sentences(text, kind)]
    share = lambda holds: sum(map(holds, found)) / len(found)
    return len(found), (sum(words for _, words in found) / len(found), share(lambda s: s[1] > LONG_WORDS),
                        sum(len(PRONOUN.findall(text)) for text, _ in found) / len(found),
                        share(lambda s: bool(re.search(r"\byour?\b", s[0], re.I)))), share(lambda s: s[1] > 35)


def is_read(path: pathlib.Path) -> bool:
    name = path.relative_to(ROOT).as_posix()
    return ((path.suffix in CODE | {".md"} or path.name == "CMakeLists.txt") and path.is_file() and name not in PASSED_OVER and
            not {"build", "node_modules"} & set(path.parts))


def all_texts() -> dict[str, dict[str, str]]:
    """kind -> path below the root -> text."""
    texts = {kind: {} for kind in LIMITS}
    files = [*ROOT.glob("*.md"), ROOT / "CMakeLists.txt", *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))]
    for path in sorted(filter(is_read, files)):
        texts[kind_of(path)][path.relative_to(ROOT).as_posix()] = path.read_text(errors="replace")
    return texts


def phrase_faults(found: dict[str, list[str]], allowed: dict[str, int]):
    for name, faults in found.items():
        if len(faults) > allowed.get(name, 0):
            yield from (f"{name}:{fault}" for fault in faults)
            if name in allowed:
                yield f"{name}: {len(faults)} phrases; prose_allowed.txt allows {allowed[name]}"


def average_faults(texts):
    for kind, (words, long, pronouns, you) in LIMITS.items():
        _, (told_words, told_long, told_pronouns, told_you), _ = averages(texts[kind].values(), kind)
        for name, value, limit in (("words a sentence", told_words, words), (f"sentences over {LONG_WORDS} words", told_long, long),
                                   ("relative pronouns a sentence", told_pronouns, pronouns)):
            if value > limit:
                yield f"{kind}: {name}: {value:.2f}; the limit is {limit}"
        if told_you < you:
            yield f'{kind}: sentences with "you": {told_you:.2f}; at least {you} are asked for'


def print_counts(texts, found):
    print("| text | files | sentences | words a sentence | over 25 words | over 35 words | relative pronouns | \"you\" | phrases |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for kind in LIMITS:
        count, (words, long, pronouns, you), very_long = averages(texts[kind].values(), kind)
        phrases = sum(len(found.get(name, ())) for name in texts[kind])
        print(f"| {kind} | {len(texts[kind])} | {count} | {words:.1f} | {long:.1%} | {very_long:.1%} | {pronouns:.2f} | {you:.1%} | {phrases} |")


def main() -> int:
    for text, kind, names in ((BAD_TEXT, "pages", BAD_NAMES), (BAD_COMMENT, "comments", BAD_COMMENT_NAMES)):
        if (found := {name for _, name, _ in hits(text, kind)}) != names:
            print(f"the check itself is wrong: it found {sorted(found)} in its bad text, not {sorted(names)}")
            return 2
    if [name for _, name, _ in told_hits(BAD_TOLD)] != ["nobody"]:
        print("the check itself is wrong: it does not find the fault of its bad literal")
        return 2
    texts = all_texts()
    found = {}
    for kind, name, text in ((kind, name, text) for kind in texts for name, text in texts[kind].items()):
        told = told_hits(text) if name.startswith(TELLING) and name.endswith((".cc", ".h")) else ()
        if faults := [f'{number}: {rule}: "{phrase}"' for number, rule, phrase in (*hits(text, kind), *told)]:
            found[name] = faults
    if "--count" in sys.argv[1:]:
        print_counts(texts, found)
        return 0
    allowed = {name: int(count) for name, count in map(str.split, ALLOWED.read_text().splitlines())}
    if "--shrink" in sys.argv[1:]:
        ALLOWED.write_text("".join(f"{name} {min(count, len(found[name]))}\n" for name, count in allowed.items() if name in found))
        return 0
    faults = [*phrase_faults(found, allowed), *average_faults(texts)]
    print("\n".join(faults) or f"{sum(map(len, texts.values()))} files read well, {sum(allowed.values())} phrases are still allowed")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
