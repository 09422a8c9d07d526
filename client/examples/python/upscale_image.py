#!/usr/bin/python3
"""Upscales an image as a web backend would: streaming both ways, with retries where they are safe."""
import argparse
import os
import pathlib
import random
import sys
import time
import uuid

sys.path.insert(0, os.environ.get("UPSCALE_STUBS", str(pathlib.Path(__file__).parent / "generated")))

import grpc  # noqa: E402
from google.rpc import error_details_pb2, status_pb2  # noqa: E402
from upscale.v1 import upscale_pb2, upscale_pb2_grpc  # noqa: E402

CHUNK_BYTES = 128 * 1024
FORMATS = {
    ".png": upscale_pb2.IMAGE_FORMAT_PNG,
    ".jpg": upscale_pb2.IMAGE_FORMAT_JPEG,
    ".jpeg": upscale_pb2.IMAGE_FORMAT_JPEG,
    ".webp": upscale_pb2.IMAGE_FORMAT_WEBP,
    ".avif": upscale_pb2.IMAGE_FORMAT_AVIF,
    ".jxl": upscale_pb2.IMAGE_FORMAT_JXL,
    ".tif": upscale_pb2.IMAGE_FORMAT_TIFF,
}


class IncompleteResult(Exception):
    """The stream ended well, but not all of the image came."""


def error_details(error):
    """(ErrorInfo or None, seconds that the server asks to wait or None) of a grpc.RpcError."""
    info, delay = None, None
    for key, value in error.trailing_metadata() or ():
        if key != "grpc-status-details-bin":
            continue
        for detail in status_pb2.Status.FromString(value).details:
            if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
                info = error_details_pb2.ErrorInfo.FromString(detail.value)
            elif detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR):
                retry = error_details_pb2.RetryInfo.FromString(detail.value)
                delay = retry.retry_delay.ToTimedelta().total_seconds()
    return info, delay


def requests(source, options):
    """The upload: the options, then the file in chunks. gRPC pulls it as fast as the server reads."""
    total_bytes = os.fstat(source.fileno()).st_size
    start = upscale_pb2.UpscaleImageStart(options=options, total_bytes=total_bytes, report_progress=True)
    yield upscale_pb2.UpscaleImageRequest(start=start)
    while chunk := source.read(CHUNK_BYTES):
        yield upscale_pb2.UpscaleImageRequest(chunk=chunk)


def upscale_once(stub, source, sink, options, timeout_s, on_progress):
    """One call from file to file; returns (header, summary)."""
    header = summary = None
    for response in stub.UpscaleImage(requests(source, options), timeout=timeout_s):
        kind = response.WhichOneof("payload")
        if kind == "header":
            header = response.header
        elif kind == "progress":
            on_progress(response.progress.tiles_done, response.progress.tiles)
        elif kind == "chunk":
            sink.write(response.chunk)
        elif kind == "summary":
            summary = response.summary
    if summary is None or sink.tell() != summary.result_bytes:
        raise IncompleteResult("the result is incomplete")
    return header, summary


def upscale_file(stub, source_path, result_path, options, timeout_s=300, tries=5, on_progress=lambda done, tiles: None):
    """Upscales a file into another one, which appears only when it is complete."""
    sink_path = result_path.with_name(f".{uuid.uuid4()}.part")
    for attempt in range(1, tries + 1):
        try:
            with open(source_path, "rb") as source, open(sink_path, "xb") as sink:
                outcome = upscale_once(stub, source, sink, options, timeout_s, on_progress)
            os.replace(sink_path, result_path)
            return outcome
        except grpc.RpcError as error:
            _, delay_s = error_details(error)
            overloaded = error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and delay_s is not None
            retryable = overloaded or error.code() == grpc.StatusCode.UNAVAILABLE
            if not retryable or attempt == tries:
                raise
        finally:
            sink_path.unlink(missing_ok=True)
        time.sleep((delay_s or 0) + 0.2 * 2**attempt * random.uniform(0.5, 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("result", type=pathlib.Path)
    parser.add_argument("--scale", type=float, help="factor; default: the model's own")
    parser.add_argument("--noise", type=int, default=-1, help="noise level, -1 to 3")
    parser.add_argument("--model", default="", help="default: the server's")
    parser.add_argument("--server", default=os.environ.get("UPSCALE_SERVER", "127.0.0.1:8001"))
    parser.add_argument("--tries", type=int, default=5)
    arguments = parser.parse_args()

    options = upscale_pb2.UpscaleOptions(
        model=arguments.model,
        noise_level=arguments.noise,
        format=FORMATS.get(arguments.result.suffix.lower(), upscale_pb2.IMAGE_FORMAT_UNSPECIFIED),
    )
    if arguments.scale is not None:
        options.scale = arguments.scale

    def show(done, tiles):
        if sys.stderr.isatty():
            print(f"\rtile {done}/{tiles}", end="", file=sys.stderr)

    # A backend makes one channel and stub, and shares them between its threads.
    with grpc.insecure_channel(arguments.server, options=[("grpc.enable_http_proxy", 0)]) as channel:
        stub = upscale_pb2_grpc.UpscaleServiceStub(channel)
        try:
            header, summary = upscale_file(
                stub, arguments.source, arguments.result, options, tries=arguments.tries, on_progress=show
            )
        except grpc.RpcError as error:
            info, _ = error_details(error)
            reason = f" [{info.reason}]" if info else ""
            sys.exit(f"{arguments.source}: {error.code().name}: {error.details()}{reason}")
        except (OSError, IncompleteResult) as error:
            sys.exit(f"{arguments.source}: {error}")
    print(
        f"{arguments.result}: {header.source_width_px}x{header.source_height_px} -> "
        f"{header.result_width_px}x{header.result_height_px}, {summary.result_bytes} bytes, "
        f"{header.model} on {summary.device}"
    )


if __name__ == "__main__":
    main()
