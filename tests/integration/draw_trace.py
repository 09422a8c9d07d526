#!/usr/bin/python3
"""One image's trace as a picture: draw_trace.py --upscaled FILE --upscale FILE IMAGE [FLAG ...].

A server and a client send their spans of IMAGE to a collector here, which draws them: what is indented is within what is
above it. FLAGs are the client's. So 1280x800 pixels look, on two threads, without most tiles:

  trace 94f1da1eac5e95a16c1648a2cadff448                                              from       to  busy ms
  client UpscaleImage  |--------------------------------------------------------|      0.0    392.4
    UpscaleImage       |--------------------------------------------------------|      1.9    392.1  8 tiles
      decode           | -----------------------------                          |      4.4    212.0  206.0
      encode           | -------------------------------------------------------|      5.8    390.8  24.5
      queue            | -----------------------------------------------        |     10.5    338.7  340.0
      infer            | -----------------------------------------------------  |     10.5    379.1  716.4
        tile           | ------------------------------                         |     10.5    216.3
"""
import argparse
import http.server
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "attack"))
import harness

WIDTH = 56  # characters of the client's span
PATIENCE_S = 5  # until the server has sent what it has


def otlp():
    """The messages of the protocol."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["protoc", "-I", ROOT / "proto" / "opentelemetry", f"--python_out={folder}", "otlp_trace.proto"], check=True)
        sys.path.insert(0, folder)
        try:
            import otlp_trace_pb2
        finally:
            sys.path.remove(folder)
    return otlp_trace_pb2


class Collector(http.server.ThreadingHTTPServer):
    def __init__(self, messages):
        super().__init__(("127.0.0.1", 0), Handler)
        self.messages, self.spans = messages, []
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        message = self.server.messages.ExportTraceServiceRequest.FromString(body)
        self.server.spans += [span for x in message.resource_spans for y in x.scope_spans for span in y.spans]
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def attributes(span):
    return {x.key: getattr(x.value, x.value.WhichOneof("value")) for x in span.attributes}


def note(span):
    known = attributes(span)
    if "busy_ms" in known:
        return f"{known['busy_ms']:.1f}"
    return f"{known['tiles']} tiles" if "tiles" in known else ""


def draw(spans, root):
    """Lines, from `root` down."""
    start, end = root.start_time_unix_nano, root.end_time_unix_nano

    def place(nanos):
        return min(max(round((nanos - start) / (end - start) * WIDTH), 0), WIDTH)

    def lines(span, depth):
        first, last = place(span.start_time_unix_nano), place(span.end_time_unix_nano)
        bar = " " * min(first, WIDTH - 1) + "-" * max(last - first, 1)
        times = [(nanos - start) / 1e6 for nanos in (span.start_time_unix_nano, span.end_time_unix_nano)]
        label = "  " * depth + (f"client {span.name}" if span is root else span.name)
        yield "{:21}|{:{}}| {:8.1f} {:8.1f}  {}".format(label, bar, WIDTH, *times, note(span)).rstrip()
        children = [x for x in spans if x.parent_span_id == span.span_id]
        for child in sorted(children, key=lambda x: (x.start_time_unix_nano, x.end_time_unix_nano)):
            yield from lines(child, depth + 1)

    yield f"{'trace ' + root.trace_id.hex():{WIDTH + 23}} {'from':>8} {'to':>8}  busy ms"
    yield from lines(root, 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--upscaled", required=True, help="the server")
    parser.add_argument("--upscale", required=True, help="the client")
    parser.add_argument("image")
    parser.add_argument("flags", nargs="*")
    options = parser.parse_args()
    messages = otlp()
    collector = Collector(messages)
    server = harness.Server(options.upscaled, [f"--trace-endpoint={collector.url}"])
    with tempfile.TemporaryDirectory() as folder:
        command = [options.upscale, "image", f"--input={options.image}", f"--output={folder}/result.png", "--quiet",
                   "--server={}:{}".format(*server.grpc), f"--trace-endpoint={collector.url}", *options.flags]
        subprocess.run(command, check=True)
    deadline = time.monotonic() + PATIENCE_S
    while not any(x.kind == messages.Span.SPAN_KIND_SERVER for x in collector.spans) and time.monotonic() < deadline:
        time.sleep(0.1)
    server.terminate()
    root = next(x for x in collector.spans if x.kind == messages.Span.SPAN_KIND_CLIENT)
    print("\n".join(draw(collector.spans, root)))


if __name__ == "__main__":
    main()
