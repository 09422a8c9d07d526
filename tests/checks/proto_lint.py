#!/usr/bin/env python3
"""Checks our .proto files against buf's standard lint rules, as far as they apply to one package.

Versioned package in its own folder; ...Service; ...Request and ...Response of their own for every RPC;
enum values prefixed with the enum's name and a zero value ..._UNSPECIFIED; lower_snake_case fields,
PascalCase messages; and a comment on every message, field, enum, value, service and RPC.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2] / "proto"


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()


def lint(path: pathlib.Path) -> list[str]:
    problems, stack, used = [], [], {}
    lines = path.read_text().splitlines()
    text = "\n".join(lines)
    package = re.search(r"^package ([\w.]+);", text, re.M)[1]
    if not re.search(r"\.v\d+$", package):
        problems.append(f"package {package} has no version")
    if path.parent.relative_to(ROOT).as_posix() != package.replace(".", "/"):
        problems.append(f"package {package} does not match its folder")
    for i, line in enumerate(lines):
        code = line.split("//")[0].strip()
        where = f"{path.name}:{i + 1}"
        declared = re.match(r"(message|enum|service|oneof|rpc)\s+(\w+)|(?:repeated |optional )?[\w.]+\s+(\w+)\s*=\s*\d+;|(\w+)\s*=\s*\d+;", code)
        if declared and not code.startswith(("syntax", "package", "import", "option ")):
            if not lines[i - 1].strip().startswith("//"):
                problems.append(f"{where}: no comment on {code}")
            kind, name, field, value = declared.groups()
            if kind in ("message", "enum", "service", "rpc") and not re.fullmatch(r"[A-Z][A-Za-z0-9]*", name):
                problems.append(f"{where}: {name} is not PascalCase")
            if kind == "service" and not name.endswith("Service"):
                problems.append(f"{where}: service {name} does not end in Service")
            if kind == "rpc":
                request, response = re.search(r"\((?:stream )?(\w+)\) returns \((?:stream )?(\w+)\)", code).groups()
                if (request, response) != (name + "Request", name + "Response"):
                    problems.append(f"{where}: {name} must take {name}Request and return {name}Response")
                for message in (request, response):
                    if used.setdefault(message, name) != name:
                        problems.append(f"{where}: {message} is shared with {used[message]}")
            if field and not re.fullmatch(r"[a-z][a-z0-9_]*", field):
                problems.append(f"{where}: field {field} is not lower_snake_case")
            if value:
                enum = stack[-1][1]
                if not value.startswith(snake(enum) + "_"):
                    problems.append(f"{where}: {value} lacks the prefix {snake(enum)}_")
                if code.endswith("= 0;") and value != snake(enum) + "_UNSPECIFIED":
                    problems.append(f"{where}: zero value {value} is not ..._UNSPECIFIED")
        if "{" in code and "}" not in code:
            stack.append(re.match(r"(\w+)\s+(\w+)", code).groups())
        elif code.startswith("}"):
            stack.pop()
    return problems


def main() -> int:
    problems = [p for path in sorted((ROOT / "upscale").rglob("*.proto")) for p in lint(path)]
    print("\n".join(problems) or "proto files are clean")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
