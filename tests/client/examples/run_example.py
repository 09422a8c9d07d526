#!/usr/bin/python3
"""Runs an example client against a real server, and against one that is full at first.

Usage: run_example.py python|node UPSCALED WORK_FOLDER. Exits with 77, and says why, where the modules
that the example needs cannot be had.
"""
import os
import pathlib
import re
import secrets
import shutil
import struct
import subprocess
import sys
import zlib
from concurrent import futures

ROOT = pathlib.Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "client" / "examples"
TIMEOUT_S = 120


def skip(why):
    print("SKIPPED:", why)
    sys.exit(77)


try:
    import grpc
except ImportError:
    skip("no grpcio for " + sys.executable)


def prepare_python(_):
    return [sys.executable, str(EXAMPLES / "python" / "upscale_image.py")], {}


def prepare_node(work):
    """Installs the example's modules beside a copy of it, so that the sources stay clean."""
    if shutil.which("npm") is None:
        skip("no npm")
    folder = work / "node"
    lock = (EXAMPLES / "node" / "package-lock.json").read_bytes()
    installed = folder / "installed-lock.json"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json", "upscale.js"):
        shutil.copy(EXAMPLES / "node" / name, folder / name)
    if not installed.exists() or installed.read_bytes() != lock:
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S)
        if result.returncode != 0:
            skip("npm ci failed: " + result.stderr.strip()[-500:])
        installed.write_bytes(lock)
    return ["node", str(folder / "upscale.js")], {"UPSCALE_PROTO": str(ROOT / "proto")}


def png(width_px, height_px, rgb):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    stride = 3 * width_px
    rows = b"".join(b"\0" + rgb[y * stride : (y + 1) * stride] for y in range(height_px))
    header = struct.pack(">IIBBBBB", width_px, height_px, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def png_size(path):
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n" and data[-8:-4] == b"IEND", f"{path} is no whole PNG"
    return struct.unpack(">II", data[16:24])


def check_against_server(run, upscaled, work):
    command = [upscaled, "--device=cpu", "--listen=127.0.0.1:0", "--http=127.0.0.1:0", "--admin=off"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            log = ""
            for line in server.stderr:  # Ends with the server when it cannot start.
                log += line
                if " ready " in line:
                    break
            endpoint = re.search(r"grpc=(\S+)", log)
            assert endpoint, f"the server did not start: {log}"

            # More than one chunk: the upload is a stream.
            source, result = work / "source.png", work / "result.png"
            source.write_bytes(png(311, 207, secrets.token_bytes(311 * 207 * 3)))
            outcome = run(source, result, "--scale", "2", "--server", endpoint[1])
            assert outcome.returncode == 0, outcome
            assert "311x207 -> 622x414" in outcome.stdout, outcome
            assert png_size(result) == (622, 414)

            bad, none = work / "bad.png", work / "none.png"
            bad.write_bytes(b"no image")
            outcome = run(bad, none, "--server", endpoint[1])
            assert outcome.returncode == 1 and "[INVALID_IMAGE]" in outcome.stderr, outcome
            assert not none.exists()
        finally:
            server.terminate()
            server.stderr.close()


def check_retry(run, work):
    """The first call is refused with RetryInfo, the second breaks off, the third is answered."""
    from google.protobuf import any_pb2, duration_pb2
    from google.rpc import error_details_pb2, status_pb2
    from upscale.v1 import upscale_pb2, upscale_pb2_grpc

    class FullAtFirst(upscale_pb2_grpc.UpscaleServiceServicer):
        calls = 0

        def UpscaleImage(self, request_iterator, context):
            self.calls += 1
            if self.calls == 1:
                retry = error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(nanos=1000000))
                detail = any_pb2.Any()
                detail.Pack(retry)
                details = status_pb2.Status(code=8, message="full", details=[detail])
                context.set_trailing_metadata([("grpc-status-details-bin", details.SerializeToString())])
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "full")
            image = b"".join(request.chunk for request in request_iterator)
            yield upscale_pb2.UpscaleImageResponse(header=upscale_pb2.UpscaleImageHeader(model="fake"))
            yield upscale_pb2.UpscaleImageResponse(chunk=image[:100])
            if self.calls == 2:
                context.abort(grpc.StatusCode.UNAVAILABLE, "broken")
            yield upscale_pb2.UpscaleImageResponse(chunk=image[100:])
            yield upscale_pb2.UpscaleImageResponse(summary=upscale_pb2.UpscaleSummary(result_bytes=len(image)))

    service = FullAtFirst()
    server = grpc.server(futures.ThreadPoolExecutor())
    upscale_pb2_grpc.add_UpscaleServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        source, result = work / "any.bin", work / "any.out"
        source.write_bytes(secrets.token_bytes(300_000))
        outcome = run(source, result, "--server", f"127.0.0.1:{port}")
        assert outcome.returncode == 0, outcome
        assert service.calls == 3, service.calls
        assert result.read_bytes() == source.read_bytes()
    finally:
        server.stop(None).wait()


def main():
    language, upscaled, work = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    stubs = work / "stubs"
    files = work / "files"
    shutil.rmtree(files, ignore_errors=True)
    files.mkdir(parents=True)
    if shutil.which("grpc_python_plugin") is None:
        skip("no grpc_python_plugin")
    subprocess.run([EXAMPLES / "python" / "generate.sh", stubs], check=True)
    sys.path.insert(0, str(stubs))
    command, variables = {"python": prepare_python, "node": prepare_node}[language](work)
    environment = {**os.environ, **variables, "UPSCALE_STUBS": str(stubs)}
    environment.pop("UPSCALE_SERVER", None)

    def run(*arguments):
        return subprocess.run(
            [*command, *map(str, arguments)], env=environment, capture_output=True, text=True, timeout=TIMEOUT_S
        )

    check_against_server(run, upscaled, files)
    check_retry(run, files)
    left = [path.name for path in files.iterdir() if path.name.endswith(".part")]
    assert not left, f"temporary files left: {left}"
    print("ok")


if __name__ == "__main__":
    main()
