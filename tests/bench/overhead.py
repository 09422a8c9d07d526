#!/usr/bin/python3
"""What identity, quotas, audit lines, usage and traces cost a call: overhead.py --upscaled FILE --bench FILE [--rounds N].

Two servers on loopback: one plain, one with all of them, whose callers' tenant has every limit, too high to be met, and
which sends every call's spans to a collector. `upscale-bench calls` compares them in turns. Prints its table, each server's
CPU time, and what was lost on the way; exits with 1 when the upper end of an interval is LIMIT_US or more.
"""
import argparse
import http.server
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "attack"))
import harness

LIMIT_US = 200
COMMON_FLAGS = [f"--memory-budget={harness.MEMORY_BUDGET}"]
HIGH = 10**12
LIMITS = {"calls": HIGH, "queue_pixels": HIGH, "pixels_per_second": HIGH, "bytes_per_second": HIGH, "call_seconds": 10**6,
          "priority": "interactive", "weight": 2}
LOST = ("upscaled_trace_spans_total", "upscaled_audit_lines_lost")


class Collector(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def full_flags(upscaled, folder, collector):
    """Those of a server with all of it, and a key of its."""
    made = subprocess.run([upscaled, "keys", "new", "--name=bench", "--tenant=bench", "--role=upscale"],
                          check=True, capture_output=True, text=True)
    key, entry = re.match(r"(upk_\S+)\s*(\{.*\})", made.stdout + made.stderr, re.DOTALL).groups()
    keys = pathlib.Path(folder, "keys.json")
    keys.write_text(json.dumps({"keys": [json.loads(entry)], "tenants": {"bench": LIMITS}}))
    return [f"--auth-keys={keys}", f"--audit-log={folder}/audit.log", f"--usage-db={folder}/usage.db",
            f"--trace-endpoint=http://127.0.0.1:{collector.server_port}"], key


def flag(name, server_port):
    return "--{}={}:{}".format(name, *server_port)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--upscaled", required=True, help="the server")
    parser.add_argument("--bench", required=True, help="upscale-bench")
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        flags, key = full_flags(options.upscaled, folder, collector)
        servers = {"plain": harness.Server(options.upscaled, COMMON_FLAGS),
                   "full": harness.Server(options.upscaled, COMMON_FLAGS + flags)}
        before = {name: server.cpu_s() for name, server in servers.items()}
        command = [options.bench, "calls", "--megabytes=0", f"--rounds={options.rounds}", f"--api-key={key}"]
        for server in servers.values():
            command += [flag("server", server.grpc), flag("http", server.http)]
        table = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        print(table, end="")
        for name, server in servers.items():
            print(f"{name}: {server.grpc[1]}, {server.cpu_s() - before[name]:.2f} s of CPU time")
        for sample, value in sorted(servers["full"].metrics().items()):
            if sample.startswith(LOST):
                print(f"{sample} {value:g}")
        for server in servers.values():
            server.process.terminate()
            server.process.wait()
    return 1 if any(float(high) >= LIMIT_US for high in re.findall(r", \+?(-?[\d.]+)\]", table)) else 0


if __name__ == "__main__":
    sys.exit(main())
