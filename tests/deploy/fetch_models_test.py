#!/usr/bin/env python3
"""fetch-models.sh against a server of our own, with small files."""
import hashlib
import http.server
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "fetch-models.sh"


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves `files`, from an offset when asked; `cut_after` bytes end a body early."""

    files: dict[str, bytes] = {}
    requests: list[tuple[str, str | None]] = []
    cut_after: int | None = None

    def do_GET(self):
        wanted = self.headers.get("Range")
        Handler.requests.append((self.path, wanted))
        body = Handler.files.get(self.path)
        if body is None:
            self.send_error(404)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        self.wfile.write(body[start:][:Handler.cut_after])

    def log_message(self, *args):
        pass


class FetchModelsTest(unittest.TestCase):
    def setUp(self):
        seed = random.SystemRandom().getrandbits(32)
        print(f"seed: {seed}")
        self.random = random.Random(seed)
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        Handler.requests, Handler.cut_after = [], None
        Handler.files = {f"/project/{name}": self.random.randbytes(self.random.randint(3000, 9000))
                         for name in ("a.param", "a.bin", "b.bin")}
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.url = f"http://127.0.0.1:{server.server_port}"
        self.write_manifest()

    def write_manifest(self):
        lines = ["# a comment"]
        for set_name, name in (("one", "a.param"), ("one", "a.bin"), ("two", "b.bin")):
            body = Handler.files[f"/project/{name}"]
            lines.append(f"{set_name} {name} {len(body)} {hashlib.sha256(body).hexdigest()} project/{name}")
        (self.root / "manifest").write_text("\n".join(lines) + "\n")

    def fetch(self, *args):
        environment = dict(os.environ, no_proxy="127.0.0.1")
        return subprocess.run([SCRIPT, "--dir", self.root / "models", "--base-url", self.url,
                               "--manifest", self.root / "manifest", *args],
                              capture_output=True, text=True, env=environment, timeout=60)

    def tree(self):
        """The files that a server sees, and those that the script keeps for itself."""
        models = self.root / "models"
        return {str(p.relative_to(models)): p.read_bytes() for p in models.rglob("*") if p.is_file()}

    def test_fetches_all_sets_and_only_once(self):
        result = self.fetch("all")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        files = Handler.files
        self.assertEqual(self.tree(), {"one/a.param": files["/project/a.param"], "one/a.bin": files["/project/a.bin"],
                                       "two/b.bin": files["/project/b.bin"]})
        Handler.requests = []
        self.assertIn("one: is there", self.fetch("one", "two").stdout)
        self.assertEqual(Handler.requests, [])

    def test_takes_addresses_licences_and_unknown_sizes_from_the_manifest(self):
        body = Handler.files["/project/b.bin"]
        with (self.root / "manifest").open("a") as manifest:
            manifest.write(f"three three.pth - {hashlib.sha256(body).hexdigest()} "
                           f"{self.url}/project/b.bin BSD-3-Clause\n")
        listed = self.fetch("--list").stdout
        self.assertRegex(listed, r"one +2 files, +\d+\.\d MB, no licence stated")
        self.assertRegex(listed, r"three +1 files, +0\.0 MB and more, BSD-3-Clause")
        result = self.fetch("--base-url", "http://127.0.0.1:1", "three")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        card = b'{"licence": "BSD-3-Clause"}\n'
        self.assertEqual(self.tree(), {"three/three.pth": body, "three/three.model.json": card})
        # A set that was fetched before licences were known gets its card.
        (self.root / "models/three/three.model.json").unlink()
        self.assertIn("three: is there", self.fetch("three").stdout)
        self.assertEqual(self.tree()["three/three.model.json"], card)

    def test_the_shipped_manifest_states_a_licence_and_a_sum_for_each_file(self):
        for line in (SCRIPT.parent / "public-models.txt").read_text().splitlines():
            if line.startswith("#"):
                continue
            name, file, size, digest, address, licence = line.split(" ")
            self.assertRegex(size, r"^([1-9]\d*|-)$")
            self.assertRegex(digest, r"^[0-9a-f]{64}$")
            self.assertIn(licence, ("MIT", "BSD-3-Clause"))
            self.assertTrue(file == "LICENSE" or pathlib.Path(address).suffix == pathlib.Path(file).suffix)

    def test_a_wrong_sum_is_refused_and_leaves_nothing(self):
        self.assertEqual(self.fetch("one").returncode, 0)
        before = self.tree()
        # The set is to be renewed, but the server has something else than the manifest says.
        good = Handler.files["/project/a.bin"]
        Handler.files["/project/a.bin"] = good[::-1]
        self.write_manifest()
        Handler.files["/project/a.bin"] = bytes(len(good))
        result = self.fetch("one")
        self.assertEqual(result.returncode, 1)
        self.assertIn(hashlib.sha256(bytes(len(good))).hexdigest(), result.stderr)
        self.assertIn("refused, nothing of this set was changed", result.stderr)
        after = self.tree()
        self.assertEqual({k: v for k, v in after.items() if not k.startswith(".")}, before)
        self.assertNotIn(".fetching-one/a.bin", after)
        self.assertNotIn(".fetching-one/a.bin.part", after)

    def test_goes_on_where_it_was_cut_off(self):
        Handler.cut_after = 1000
        self.assertEqual(self.fetch("two").returncode, 1)
        self.assertEqual([name for name in self.tree() if not name.startswith(".")], [])
        Handler.cut_after, Handler.requests = None, []
        result = self.fetch("two")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(self.tree(), {"two/b.bin": Handler.files["/project/b.bin"]})
        kept = [wanted for _, wanted in Handler.requests]
        self.assertEqual(len(kept), 1)
        self.assertRegex(kept[0], r"bytes=[1-9]\d*-")

    def test_a_set_is_replaced_as_a_whole(self):
        self.assertEqual(self.fetch("one").returncode, 0)
        (self.root / "models/one/extra").write_text("of an older set")
        Handler.files["/project/a.bin"] = self.random.randbytes(5000)
        self.write_manifest()
        self.assertEqual(self.fetch("one").returncode, 0)
        self.assertEqual(sorted(self.tree()), ["one/a.bin", "one/a.param"])
        self.assertEqual(self.tree()["one/a.bin"], Handler.files["/project/a.bin"])

    def test_a_file_larger_than_announced_is_refused(self):
        Handler.files["/project/b.bin"] += bytes(1_000_000)
        self.assertEqual(self.fetch("two").returncode, 1)
        self.assertEqual([name for name in self.tree() if not name.startswith(".")], [])

    def test_says_what_is_wrong(self):
        for args, code, message in ((["three"], 1, "there is no set 'three'; known are: one two"),
                                    ([], 2, "Usage:"), (["--dir"], 1, "--dir needs a value"),
                                    (["--manifest", "/nowhere", "one"], 1, "cannot read /nowhere")):
            result = self.fetch(*args)
            self.assertEqual(result.returncode, code, result.stderr)
            self.assertIn(message, result.stderr)
        del Handler.files["/project/b.bin"]
        result = self.fetch("two")
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"cannot download {self.url}/project/b.bin; run again to go on", result.stderr)


if __name__ == "__main__":
    if shutil.which("curl") is None:
        print("skipped: needs curl")
        sys.exit(77)
    unittest.main()
