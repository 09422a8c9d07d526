#!/usr/bin/python3
"""Runs the tests of the clients, of the page and of /docs against a real server.

Usage: run_web.py js|python|page|docs UPSCALED WORK_FOLDER. Exits with 77, and says why, where something
that it needs is missing.
"""
import contextlib
import functools
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "tests" / "support"))
import npm

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def skip(why):
    print("SKIPPED:", why)
    sys.exit(77)


def need(program):
    return shutil.which(program) or skip(f"no {program}")


def prepare_browser(kind, work):
    """Installs puppeteer-core and axe-core beside copies of the tests, so that the sources stay
    clean."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None) or skip("no chromium")
    folder = work / "node"
    if why_not := npm.install(HERE, folder):
        skip(why_not)
    shutil.copy(ROOT / "client" / "js" / "test" / "png.js", folder)
    shots = work / "screenshots"
    shutil.rmtree(shots, ignore_errors=True)
    shots.mkdir()
    environment = {
        "BROWSER": browser,
        "SCREENSHOTS": str(shots),
        "SAMPLE": str(ROOT / "deploy" / "demo" / "sample.png"),
        "CODEC_FILES": str(ROOT / "tests" / "fuzz" / "corpus" / "codecs"),
    }
    return [
        need("node"),
        "--test",
        "--test-reporter=spec",
        str(folder / f"{kind}.test.js"),
    ], environment


@contextlib.contextmanager
def image_host():
    """A host of images on the loopback address: the URL of one. What lies beside its folder is not
    for the server to fetch."""
    handler = functools.partial(
        http.server.SimpleHTTPRequestHandler, directory=ROOT / "tests" / "data"
    )
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as host:
        threading.Thread(target=host.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{host.server_port}/fast-2x/input.png"
        host.shutdown()


def prepare_js():
    tests = sorted((ROOT / "client" / "js" / "test").glob("*.test.js"))
    return [need("node"), "--test", *map(str, tests)], {}


def prepare_python():
    tests = ROOT / "client" / "python" / "tests"
    return [sys.executable, "-m", "unittest", "discover", "-v", "-s", str(tests)], {
        "PYTHONDONTWRITEBYTECODE": "1"
    }


@contextlib.contextmanager
def serve(upscaled, work, name, *flags):
    """A server, until the end: the URLs of its ports, as {"http": ..., "admin": ...}. Its log is
    NAME.log."""
    ports = [f"--{port}=127.0.0.1:0" for port in ("listen", "http", "admin")]
    command = [upscaled, "--device=cpu", *ports, *flags]
    with open(work / f"{name}.log", "w+") as log, subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            said = ""
            for line in server.stderr:  # Ends with the server when it cannot start.
                said += line
                if " ready " in line:
                    break
            endpoints = {port: re.search(rf"\b{port}=(\S+)", said) for port in ("http", "admin")}
            assert all(endpoints.values()), f"the server did not start: {said}"
            print(said, file=log, flush=True)
            copier = subprocess.Popen(
                ["cat"], stdin=server.stderr, stdout=log
            )  # A full pipe loses lines of the log.
            yield {port: "http://" + found[1] for port, found in endpoints.items()}
            assert server.poll() is None, f"the server ended: see {log.name}"
        finally:
            server.terminate()
            server.stderr.close()
    copier.wait(10)


@contextlib.contextmanager
def serve_with_keys(upscaled, work):
    """A server that wants keys: what page.test.js is told of it."""
    keys, entries = {}, []
    for name, role in (("reader", "read"), ("uploader", "upscale")):
        made = subprocess.run(
            [upscaled, "keys", "new", "--name", name, "--role", role],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
        keys[name], _, entry = made.partition("\n")
        entries.append(json.loads(entry))
    (work / "keys.json").write_text(json.dumps({"keys": entries}))
    with serve(upscaled, work, "keys", f"--auth-keys={work}/keys.json") as urls:
        yield {"url": urls["http"], **keys}


def main():
    kind, upscaled, work = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]).resolve()
    work.mkdir(parents=True, exist_ok=True)
    if kind in ("page", "docs"):
        command, variables = prepare_browser(kind, work)
    else:
        command, variables = {"js": prepare_js, "python": prepare_python}[kind]()
    with contextlib.ExitStack() as stack:
        image_url = stack.enter_context(image_host())
        fetch = f"--fetch-allow-private={os.path.dirname(image_url)}/"
        urls = stack.enter_context(serve(upscaled, work, "server", fetch))
        if kind in ("page", "docs"):
            variables["UPSCALED_KEYS"] = json.dumps(
                stack.enter_context(serve_with_keys(upscaled, work))
            )
        environment = {
            **os.environ,
            **variables,
            "UPSCALED_URL": urls["http"],
            "UPSCALED_IMAGE_URL": image_url,
            "UPSCALED_ADMIN": urls["admin"],
        }
        result = subprocess.run(command, env=environment, cwd=work)
    sys.exit(result.returncode)


if __name__ == "__main__":
    main()
