#!/usr/bin/env python3
"""make_openapi.py [--check]: brings the options of openapi.json in line with the contract; --check only looks.

UpscaleOptions of the contract is the list of options: it gives their names, types and choices, to the query and to the form. Limits,
defaults, descriptions and examples are those of the query's parameters in openapi.json; a new option begins with its comment."""
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
PROTO = (HERE.parents[1] / "proto/upscale/v1/upscale.proto").read_text()
OPENAPI = HERE / "openapi.json"

TYPES = {"bool": "boolean", "double": "number", "int32": "integer", "int64": "integer", "string": "string"}
FLATTENED = {"size": "TargetSize", "prefilter": "BilateralFilter"}  # messages whose fields are options over HTTP
MERGED = {"auto_noise"}  # is noise_level=auto over HTTP
OWN_FORM = {"noise_level", "frame"}  # take words as well as numbers
ONLY_READ = {"gif", "bmp", "heic"}  # formats of sources
ALSO = {"jpeg": "jpg", "tiff": "tif"}  # further names of choices
SHORT = {"noise": "noise_level", "width": "width_px", "height": "height_px", "short_side": "short_side_px", "long_side": "long_side_px"}
OF_THE_CALL = {"url", "timeout", "request_id", "dry_run", "on_error", "download", "webhook", "reference"}


def body_of(kind, name):
    return re.search(rf"^{kind} {name} {{\n(.*?)^}}", PROTO, re.M | re.S)[1]


def choices_of(enum):
    prefix = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", enum).upper() + "_"
    choices = []
    for value in re.findall(rf"^  {prefix}(\w+) = [1-9]", body_of("enum", enum), re.M):
        choice = value.lower().replace("_", "-")
        choices += [name for name in (choice, ALSO.get(choice)) if name and name not in ONLY_READ]
    return ["auto", *choices] if enum == "Depth" else choices


def options_of(message):
    """Name, comment and schema of each option; the schema of an OWN_FORM is empty."""
    fields = re.findall(r"((?:^ +//.*\n)*)^ +(?:optional )?(\w+) (\w+) = \d+;", body_of("message", message), re.M)
    for comment, kind, name in fields:
        if name in FLATTENED:
            yield from options_of(FLATTENED[name])
        elif name not in MERGED:
            schema = {"type": TYPES[kind]} if kind in TYPES else {"type": "string", "enum": choices_of(kind)}
            yield name, " ".join(re.sub(r"^ *// ?", "", line) for line in comment.splitlines()), {} if name in OWN_FORM else schema


def form_fields(parameters, fields):
    """Fields of the form: those of the call as they are, options as their parameters tell them, in the parameters' order."""
    def field_of(name):
        if name not in parameters or name in OF_THE_CALL:
            return fields[name]
        parameter = parameters[name]
        examples = {"examples": [parameter["example"]]} if "example" in parameter else {}
        return {**parameter["schema"], "description": parameter["description"], **examples}
    query = [name for name, parameter in parameters.items() if parameter["in"] == "query"]
    return {name: field_of(name) for name in [*(name for name in fields if name not in parameters), *query]}


def updated(document):
    parameters = document["components"]["parameters"]
    references = document["paths"]["/v1/upscale"]["parameters"]
    options = list(options_of("UpscaleOptions"))
    known = {name for name, _, _ in options} | set(SHORT) | OF_THE_CALL
    for name in [name for name, parameter in parameters.items() if parameter["in"] == "query" and name not in known]:
        del parameters[name]
        references.remove({"$ref": f"#/components/parameters/{name}"})
    for name, comment, schema in options:
        parameter = parameters.setdefault(name, {"name": name, "in": "query", "description": comment, "schema": {}})
        parameter["schema"] = {**schema, **{key: value for key, value in parameter["schema"].items() if key not in schema}}
    for short, name in SHORT.items():
        parameters[short]["schema"] = parameters[name]["schema"]
    for name in [*(name for name, _, _ in options), *SHORT]:
        if (reference := {"$ref": f"#/components/parameters/{name}"}) not in references:
            references.insert(references.index({"$ref": "#/components/parameters/url"}), reference)
    form = document["paths"]["/v1/upscale"]["post"]["requestBody"]["content"]["multipart/form-data"]["schema"]
    form["properties"] = form_fields(parameters, form["properties"])
    return document


def main():
    text = OPENAPI.read_text()
    new = json.dumps(updated(json.loads(text)), indent=2, ensure_ascii=False) + "\n"
    if sys.argv[1:] == ["--check"]:
        if new != text:
            sys.exit("the options of openapi.json are not those of the contract: run server/rest/make_openapi.py")
    elif new != text:
        OPENAPI.write_text(new)


if __name__ == "__main__":
    main()
