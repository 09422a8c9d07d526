#!/usr/bin/env python3
"""Checks server/rest/openapi.json: its options are those of the contract (make_openapi.py), references lead somewhere, schemas are JSON Schema 2020-12 as OpenAPI 3.1 has them,
examples are what their schemas say, everything is described; and, where openapi-spec-validator is installed, that it is
OpenAPI 3.1. Exits with 77, after its own checks, where python3-jsonschema is missing."""
import json
import pathlib
import re
import subprocess
import sys

try:
    import jsonschema
except ImportError:
    jsonschema = None

PATH = pathlib.Path(__file__).resolve().parents[2] / "server/rest/openapi.json"
DOCUMENT = json.loads(PATH.read_text())
METHODS = {"get", "head", "post", "put", "delete", "options", "patch"}
wrong: list[str] = []


def resolve(node):
    """The node that `node` refers to, or itself."""
    while isinstance(node, dict) and "$ref" in node:
        target = DOCUMENT
        for step in node["$ref"].removeprefix("#/").split("/"):
            if step not in target:
                wrong.append(f"{node['$ref']} leads nowhere")
                return {}
            target = target[step]
        node = target
    return node


def inlined(schema):
    """The schema with what it refers to in its place; ours do not refer to themselves."""
    schema = resolve(schema)
    if isinstance(schema, dict):
        return {key: inlined(value) for key, value in schema.items()}
    return [inlined(value) for value in schema] if isinstance(schema, list) else schema


def check_schema(schema, where: str, examples=()) -> None:
    schema = inlined(schema)
    if jsonschema is not None:
        try:
            jsonschema.Draft202012Validator.check_schema(schema)
        except jsonschema.SchemaError as error:
            wrong.append(f"{where}: {error.message}")
            return
        for example in [*examples, *schema.get("examples", [])]:
            for error in jsonschema.Draft202012Validator(schema).iter_errors(example):
                wrong.append(f"{where}: the example {example!r}: {error.message}")
    for name, value in schema.get("properties", {}).items():
        if not value.get("description"):
            wrong.append(f"{where}.{name} has no description")
        check_schema(value, f"{where}.{name}")


def check_content(content: dict, where: str) -> None:
    for media, value in content.items():
        check_schema(value["schema"], f"{where} {media}", [value["example"]] if "example" in value else [])


def check_parameter(parameter, where: str) -> None:
    parameter = resolve(parameter)
    name = f"{where} {parameter.get('name')}"
    for field in ("description", "example", "schema"):
        if field not in parameter:
            wrong.append(f"{name} has no {field}")
    check_schema(parameter["schema"], name, [parameter["example"]] if "example" in parameter else [])


def check_samples(path: str, method: str, operation: dict) -> None:
    """Each call has a curl command, of its path and method."""
    sources = [sample["source"] for sample in operation.get("x-codeSamples", [])]
    pattern = re.escape(path).replace(r"\{", "{").replace(r"\}", "}")
    pattern = re.sub(r"{[^}]*}", r"[^/\\s]+", pattern)
    methods = {"head": "--head", "delete": "-X DELETE"}
    for source in sources:
        signed = "$(upscale sign " in source and operation["operationId"] == "upscaleSigned"
        if not signed and not re.search(rf'localhost:\d+{pattern}(?=["?\s]|$)', source):
            wrong.append(f"{method} {path}: the command is of another path: {source}")
        if methods.get(method, "") not in source:
            wrong.append(f"{method} {path}: the command is of another method: {source}")
    if not sources:
        wrong.append(f"{method} {path} has no command (x-codeSamples)")


def check_reasons() -> None:
    """The list of reasons is the one of docs/troubleshooting.md."""
    page = (PATH.parents[2] / "docs/troubleshooting.md").read_text()
    rows = re.findall(r"^\| `([A-Z_]+)` \| (\d+) \| (.*) \| (.*) \|$", page, re.M)
    told = {name: {"status": int(status), "description": what, "remedy": remedy} for name, status, what, remedy in rows}
    if told != DOCUMENT["x-reasons"]:
        different = sorted(name for name in told.keys() | DOCUMENT["x-reasons"].keys()
                           if told.get(name) != DOCUMENT["x-reasons"].get(name))
        wrong.append(f"x-reasons and docs/troubleshooting.md differ in {', '.join(different)}")


def check_options() -> None:
    """Names, types and choices of options are the contract's."""
    done = subprocess.run([sys.executable, PATH.with_name("make_openapi.py"), "--check"], capture_output=True, text=True)
    if done.returncode != 0:
        wrong.append(done.stderr.strip())


def main() -> int:
    check_options()
    check_reasons()
    for path, item in DOCUMENT["paths"].items():
        for parameter in item.get("parameters", []):
            check_parameter(parameter, path)
        for method in METHODS & item.keys():
            operation, where = item[method], f"{method} {path}"
            if not operation.get("summary") or not operation.get("operationId"):
                wrong.append(f"{where} has no summary or no operationId")
            for parameter in operation.get("parameters", []):
                check_parameter(parameter, where)
            check_samples(path, method, operation)
            check_content(operation.get("requestBody", {}).get("content", {}), where)
            for status, response in operation["responses"].items():
                response = resolve(response)
                if not response.get("description"):
                    wrong.append(f"{where} {status} has no description")
                check_content(response.get("content", {}), f"{where} {status}")
                for name, header in response.get("headers", {}).items():
                    check_schema(resolve(header)["schema"], f"{where} {status} {name}")
    for name, schema in DOCUMENT["components"]["schemas"].items():
        check_schema(schema, name)
    try:
        from openapi_spec_validator import validate_spec
        validate_spec(DOCUMENT)
    except ImportError:
        pass
    except Exception as error:  # of the validator's many kinds
        wrong.append(f"not OpenAPI 3.1: {error}")
    print("\n".join(wrong) or f"{PATH.name} is sound")
    return 1 if wrong else 77 if jsonschema is None else 0


if __name__ == "__main__":
    sys.exit(main())
