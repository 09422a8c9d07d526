#!/usr/bin/env python3
"""One list of options for all that know them: options_test.py UPSCALED UPSCALE

UpscaleOptions of the contract is the list. Each option is in the service's description, on the command line, in the
JavaScript client's types, goes over HTTP from the command, and changes the name of a result if its bytes follow from it.
"""
import functools
import http.client
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unittest
import urllib.parse
import zlib

from local_server import LocalServer

try:
    import jsonschema
except ImportError:
    jsonschema = None

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROTO = (ROOT / "proto/upscale/v1/upscale.proto").read_text()

# Option -> (flag of `upscale image` and its value, other options it needs, whether bytes follow from it).
OPTIONS = {
    "model": (("--model", "fast-2x"), {}, True),
    "noise_level": (("--noise", "1"), {}, True),
    "scale": (("--scale", "3"), {}, True),
    "width_px": (("--width", "70"), {}, True),
    "height_px": (("--height", "70"), {}, True),
    "short_side_px": (("--short-side", "70"), {}, True),
    "long_side_px": (("--long-side", "70"), {}, True),
    "fit": (("--fit", "cover"), {"width_px": "40", "height_px": "30"}, True),
    "max_pixels": (("--max-pixels", "100"), {}, True),
    "no_enlarge": (("--no-enlarge", ""), {}, True),
    "tta": (("--tta", ""), {}, True),
    "seamless": (("--seamless", ""), {}, True),
    "format": (("--format", "jpeg"), {}, True),
    "quality": (("--quality", "50"), {"format": "jpeg"}, True),
    "png_compression": (("--png-compression", "9"), {"format": "png"}, True),
    "keep_16_bit": (("--16-bit", ""), {}, False),  # the default since there is depth
    "precision": (("--precision", "fast"), {}, True),
    "tile_px": (("--tile", "32"), {}, False),
    "sigma_space": (("--prefilter-space", "1.5"), {"sigma_range": "20"}, True),
    "sigma_range": (("--prefilter-range", "30"), {"sigma_space": "1.5"}, True),
    "alpha": (("--alpha", "resample"), {}, True),
    "alpha_colour": (("--alpha-colour", "keep"), {}, True),
    "keep_colours": (("--keep-colours", "off"), {}, True),
    "metadata": (("--metadata", "strip"), {}, True),
    "on_damage": (("--on-damage", "fill"), {}, True),
    "depth": (("--depth", "16"), {}, True),
    "frame": (("--frame", "2"), {}, True),
}
# Options of HTTP only: about the call, not about the image.
CALL_OPTIONS = {"url", "timeout", "request_id", "dry_run", "on_error", "download", "webhook", "reference"}
FLATTENED = {"auto_noise": [], "size": "TargetSize", "prefilter": "BilateralFilter"}


def fields_of(message: str) -> list[str]:
    body = re.search(rf"^message {message} {{\n(.*?)^}}", PROTO, re.M | re.S)[1]
    return re.findall(r"^ +(?:optional )?\w+ (\w+) = \d+;", body, re.M)


def contract_options() -> set[str]:
    names = set()
    for field in fields_of("UpscaleOptions"):
        inner = FLATTENED.get(field, [field])
        names.update(fields_of(inner) if isinstance(inner, str) else inner)
    return names


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def animated_png(width: int, height: int) -> bytes:
    """Two frames with alpha."""
    def row(y: int, shade: int) -> bytes:
        return b"\0" + b"".join(bytes(((x * 5 + y) % 256, y * 7 % 256, shade, 255 - 4 * x)) for x in range(width))

    frames = [zlib.compress(b"".join(row(y, shade) for y in range(height))) for shade in (10, 200)]
    control = struct.pack(">IIIIHHBB", width, height, 0, 0, 1, 10, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)) +
            chunk(b"acTL", struct.pack(">II", 2, 0)) + chunk(b"fcTL", struct.pack(">I", 0) + control) + chunk(b"IDAT", frames[0]) +
            chunk(b"fcTL", struct.pack(">I", 1) + control) + chunk(b"fdAT", struct.pack(">I", 2) + frames[1]) + chunk(b"IEND", b""))


IMAGE = animated_png(33, 21)


class OptionsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        (cls.folder / "in.png").write_bytes(IMAGE)
        cls.server = LocalServer(UPSCALED)
        cls.addClassCleanup(cls.server.stop)

    def call(self, method: str, target: str, body: bytes = b""):
        connection = http.client.HTTPConnection(self.server.http, timeout=100)
        connection.request(method, target, body or None)
        answer = connection.getresponse()
        told = answer.status, answer.headers, answer.read()
        connection.close()
        return told

    def upscale(self, **options: str) -> tuple[str, bytes]:
        """Name (ETag) and bytes of the result of the image with these options."""
        status, fields, result = self.call("POST", f"/v1/upscale?{urllib.parse.urlencode(options)}", IMAGE)
        self.assertEqual(status, 200, (options, result))
        return fields["ETag"], result

    def test_the_table_here_is_the_contracts(self) -> None:
        self.assertEqual(set(OPTIONS), contract_options())

    def test_description_has_each_and_no_other(self) -> None:
        document = json.loads(self.call("GET", "/openapi.json")[2])
        references = [entry["$ref"].removeprefix("#/").split("/") for entry in document["paths"]["/v1/upscale"]["parameters"]]
        parameters = [functools.reduce(lambda node, step: node[step], path, document) for path in references]
        names = {entry["name"] for entry in parameters
                 if entry["in"] == "query" and not entry["description"].startswith("Short for")}
        self.assertEqual(names, set(OPTIONS) | CALL_OPTIONS)

    def test_answers_are_as_described(self) -> None:
        """All that the server tells is in the service's description, with its type."""
        if jsonschema is None:
            self.skipTest("no python3-jsonschema")
        document = json.loads((ROOT / "server/rest/openapi.json").read_text())

        def strict(node):
            """The schema with references in their places, and without room for other properties."""
            if isinstance(node, list):
                return [strict(value) for value in node]
            if not isinstance(node, dict):
                return node
            if "$ref" in node:
                return strict(functools.reduce(lambda at, step: at[step], node["$ref"][2:].split("/"), document))
            closed = {"additionalProperties": False} if "properties" in node else {}
            return closed | {key: strict(value) for key, value in node.items()}

        for method, target, path in (("GET", "/v1/info", "/v1/info"), ("GET", "/v1/models", "/v1/models"),
                                     ("GET", "/v1/models/fast-2x", "/v1/models/{name}"), ("GET", "/v1/models/none", "/v1/models/{name}"),
                                     ("POST", "/v1/upscale?dry_run=1", "/v1/upscale"), ("POST", "/v1/upscale?scale=99", "/v1/upscale"),
                                     ("GET", "/v1/upscale?url=https://a.example/b.png", "/v1/upscale"),
                                     ("GET", "/v1/jobs", "/v1/jobs"), ("GET", "/v1/results/none", "/v1/results/{id}")):
            status, fields, body = self.call(method, target, IMAGE if method == "POST" else b"")
            described = strict(document["paths"][path][method.lower()]["responses"])
            self.assertIn(str(status), described, target)
            content = described[str(status)]["content"]
            kind = fields["Content-Type"].partition(";")[0]
            self.assertIn(kind, content, target)
            jsonschema.Draft202012Validator(content[kind]["schema"]).validate(json.loads(body))

    def test_documentation_has_each(self) -> None:
        page = self.call("GET", "/docs")[2].decode()
        self.assertEqual({name for name in OPTIONS if f'id="option-{name}"' not in page}, set())

    def test_command_has_each(self) -> None:
        told = subprocess.run([UPSCALE, "image", "--help"], capture_output=True, text=True, check=True).stdout
        flags = set(re.findall(r"--[a-z0-9-]+", told))
        self.assertEqual({flag for (flag, _), _, _ in OPTIONS.values()} - flags, set())

    def test_javascript_client_has_each(self) -> None:
        types = (ROOT / "client/js/upscaled.d.ts").read_text()
        body = re.search(r"interface UpscaleOptions .*?^}", types, re.M | re.S)[0]
        names = set(re.findall(r"^  (\w+)\?:", body, re.M))
        camel = {re.sub(r"_(\w)", lambda letter: letter[1].upper(), name) for name in OPTIONS}
        self.assertEqual(camel - names, set())

    def test_names_of_results_follow_from_each(self) -> None:
        status, _, answer = self.call("POST", "/v1/upscale?precision=fast", IMAGE)
        fast = status == 200
        if not fast:  # CPUs without VNNI and 16-bit floats
            self.assertEqual((status, json.loads(answer)["reason"]), (415, "UNSUPPORTED"))
        for name, ((_, value), needs, changes) in OPTIONS.items():
            if name == "precision" and not fast:
                continue
            value = {"": "1", "off": "0"}.get(value, value)
            base = {} if name.startswith("sigma") else needs  # they come together
            same = self.upscale(**base)[0] == self.upscale(**needs, **{name: value})[0]
            self.assertEqual(same, not changes, name)

    def test_command_sends_each_over_http(self) -> None:
        """The result of the command over HTTP has the name that the service gives for the option."""
        for name, ((flag, value), needs, changes) in OPTIONS.items():
            if not changes or name == "precision":
                continue
            flags = [flag] + ([value] if value else [])
            for other, setting in needs.items():
                flags += [OPTIONS[other][0][0], setting]
            ending = "jpg" if "jpeg" in flags else "png"
            self.folder.joinpath("out." + ending).unlink(missing_ok=True)
            done = subprocess.run([UPSCALE, "image", "-i", self.folder / "in.png", "-o", self.folder / ("out." + ending), *flags,
                                   "--server", f"http://{self.server.http}"], capture_output=True, text=True, timeout=100)
            self.assertEqual(done.returncode, 0, (name, done.stderr))
            sent = {"": "1", "off": "0"}.get(value, value)
            _, expected = self.upscale(**{"format": ending, **needs, name: sent})
            self.assertEqual(self.folder.joinpath("out." + ending).read_bytes(), expected, name)


if __name__ == "__main__":
    UPSCALED, UPSCALE = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
