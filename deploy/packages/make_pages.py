#!/usr/bin/env python3
"""make_pages.py PROGRAM SHARE: writes PROGRAM's manual page and its completion for bash, zsh and fish below SHARE, out of its --help.

Options and commands become entries; every other line goes into the notes as it is, so that a page lacks nothing that the program tells."""
import dataclasses
import gzip
import os
import pathlib
import re
import subprocess
import sys
import time

OPTION = re.compile(r"  (-\S.*?)(?:  +(\S.*))?$")
COMMAND = re.compile(r"  ([a-z][a-z-]*)  +(\S.*)$")
HEADING = re.compile(r"(\S.*):$")
DEFAULT_COMMAND = "image"  # its flags serve without a command, too
INLINE_COMMAND = re.compile(r"[a-z][a-z-]*$")  # of a program that lists options of its commands at once


@dataclasses.dataclass
class Option:
    spelling: str
    text: str

    def flags(self):
        return re.findall(r"(?<![\w-])--?[a-zA-Z0-9][\w-]*", re.split(r" (?:Excludes|Needs):", self.spelling)[0])

    def takes_value(self):
        return bool(re.sub(r"REQUIRED|\(Env:[^)]*\)", "", re.split(r" (?:Excludes|Needs):", self.spelling)[0]).partition(" ")[2].strip())

    def choices(self):
        """The words of --format png|jpeg|webp."""
        match = re.search(r"(?:^|[ :])((?:[\w.-]+\|)+[\w.-]+)", self.spelling)
        return match[1].split("|") if match and match[1] != match[1].upper() else []


@dataclasses.dataclass
class Help:
    about: str = ""
    usage: str = ""
    sections: list = dataclasses.field(default_factory=list)  # pairs of a heading and its options
    commands: dict = dataclasses.field(default_factory=dict)  # name to its Help
    notes: list = dataclasses.field(default_factory=list)

    def options(self):
        return [option for _, options in self.sections for option in options]

    def general_options(self):
        """Those that may stand first."""
        default = self.commands.get(DEFAULT_COMMAND, Help()).options()
        own = {option.spelling for option in self.options()}
        return self.options() + [option for option in default if option.spelling not in own]


def told(program, *arguments):
    return subprocess.run([program, *arguments], check=True, text=True, capture_output=True, env={"PATH": os.environ["PATH"]}).stdout


def read_help(program, *path):
    lines = told(program, *path, "--help").splitlines()
    page, place, last = Help(about=lines[0], usage=lines[1].removeprefix("Usage: ")), "", None
    for line in lines[2:]:
        if heading := HEADING.match(line):
            place = heading[1]
            if place != "Subcommands":
                page.sections.append((place, []))
        elif place == "Subcommands":
            if match := COMMAND.match(line) or INLINE_COMMAND.match(line):
                name = match[0].split()[0]
                page.commands[name] = read_help(program, *path, name)
            elif line and not line.startswith(" "):
                place = "Notes"
                page.notes.append(line)
        elif page.sections and (match := OPTION.match(line)):
            last = Option(match[1], match[2] or "")
            page.sections[-1][1].append(last)
        elif last and line.startswith(" " * 10):
            last.text = f"{last.text} {line.strip()}".strip()
        elif line:
            page.notes.append(line)
            last = None
    return page


def roff(text):
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga")
    return re.sub(r"^([.'])", r"\\&\1", escaped)


def roff_options(page):
    for heading, options in page.sections:
        if heading != "Options":
            yield f".SS {roff(heading)}"
        for option in options:
            yield from (".TP", rf"\fB{roff(option.spelling)}\fR", roff(option.text) or "\\&")


def man(name, page, version, day):
    yield from (f'.TH {name.upper()} 1 {day} "{version}" "User Commands"', ".SH NAME", rf"{roff(name)} \- {roff(page.about.rstrip('.'))}",
                ".SH SYNOPSIS", roff(page.usage), ".SH OPTIONS")
    yield from roff_options(page)
    for command, its in page.commands.items():
        yield from (f".SH {command.upper()}", roff(its.about), ".PP", roff(its.usage))
        yield from roff_options(its)
        for below, theirs in its.commands.items():
            yield from (f".SS {roff(command)} {roff(below)}", roff(theirs.about))
            yield from roff_options(theirs)
    if page.notes:
        yield from (".SH NOTES", ".nf", *map(roff, page.notes), ".fi")


def zsh_option(option):
    """The specification of an option for _arguments."""
    text = re.sub(r"([\\\[\]:])", r"\\\1", option.text).replace("'", "'\\''")
    choices = f":({' '.join(option.choices())})" if option.choices() else ":_files"
    for flag in option.flags():
        others = f"({' '.join(option.flags())})" if len(option.flags()) > 1 and "..." not in option.spelling else "*"
        yield f"'{others}{flag}[{text}]{': ' + choices if option.takes_value() else ''}'"


def zsh_completion(name, page):
    """As completion(), with the texts of commands and flags."""
    def arguments(its, first):
        return " ".join(["_arguments -s", *(spec for option in its for spec in zsh_option(option)), first])
    yield from (f"#compdef {name}", f"# Completion of {name} for zsh; made of its --help.", "case ${words[2]} in")
    for command, its in page.commands.items():
        below = f"'1: :({' '.join(its.commands)})'" if its.commands else "'*: :_files'"
        yield f"  {command}) shift words; ((CURRENT--)); {arguments(its.options(), below)} ;;"
    first = f"'1: :({' '.join(page.commands)})'" if page.commands else ""
    yield from (f"  *) {arguments(page.general_options(), first)} ;;", "esac")


def fish_completion(name, page):
    """As zsh_completion()."""
    def quoted(text):
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    def rows(its, condition):
        for option in its:
            row = [f"complete -c {name}", *([f"-n '{condition}'"] if condition else [])]
            row += [f"-{'l' if flag.startswith('--') else 's'} {flag.lstrip('-')}" for flag in option.flags()]
            row += [f"-x -a '{' '.join(option.choices())}'"] if option.choices() else ["-r"] if option.takes_value() else []
            yield " ".join([*row, f"-d {quoted(option.text)}"])
    yield f"# Completion of {name} for fish; made of its --help."
    others = " ".join(command for command in page.commands if command != DEFAULT_COMMAND)
    yield from rows(page.general_options(), f"not __fish_seen_subcommand_from {others}" if others else "")
    for command, its in page.commands.items():
        yield f"complete -c {name} -n __fish_use_subcommand -a {command} -d {quoted(its.about)}"
        for below, theirs in its.commands.items():
            yield f"complete -c {name} -n '__fish_seen_subcommand_from {command}' -a {below} -d {quoted(theirs.about)}"
        if command != DEFAULT_COMMAND:
            yield from rows(its.options(), f"__fish_seen_subcommand_from {command}")


def completion(name, page):
    """Completes commands and flags, a flag's choices, and else files."""
    function = "_" + name.replace("-", "_")
    pages = {"": page, **page.commands}
    choices = {}
    for its in pages.values():
        choices |= {flag: option.choices() for option in its.options() for flag in option.flags() if option.choices()}
    yield from (f"# Completion of {name} for bash; made of its --help.", f"{function}() {{",
                '  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words=""', "  case $before in")
    for flag, words in sorted(choices.items()):
        yield f"    {flag}) COMPREPLY=($(compgen -W \"{' '.join(words)}\" -- \"$word\")); return ;;"
    yield from ("  esac", "  case ${COMP_WORDS[1]} in")
    for command, its in page.commands.items():
        yield f"    {command}) words=\"{' '.join([*its.commands, *(f for o in its.options() for f in o.flags())])}\" ;;"
    general = [*page.commands, *(f for o in page.general_options() for f in o.flags())]
    yield from (f"    *) words=\"{' '.join(general)}\" ;;", "  esac",
                '  if [[ $word == -* || $COMP_CWORD == 1 ]]; then COMPREPLY=($(compgen -W "$words" -- "$word")); fi', "}",
                f"complete -o default -F {function} {name}")


def main():
    program, share = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    page = read_help(program)
    version = told(program, "--version").strip() if "--version" in [f for o in page.options() for f in o.flags()] else program.name
    day = time.strftime("%Y-%m-%d", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", "0"))))
    name = program.name
    files = {
        f"man/man1/{name}.1.gz": man(name, page, version, day),
        f"bash-completion/completions/{name}": completion(name, page),
        f"zsh/vendor-completions/_{name}": zsh_completion(name, page),
        f"fish/vendor_completions.d/{name}.fish": fish_completion(name, page),
    }
    for place, lines in files.items():
        content = ("\n".join(lines) + "\n").encode()
        path = share / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


if __name__ == "__main__":
    main()
