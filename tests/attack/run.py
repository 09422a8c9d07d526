#!/usr/bin/python3
"""Attacks a built server: run.py --upscaled FILE [NAME ...]. Each attack has a server of its own and a victim
beside it; see harness.py for what must hold. Exits with 1 when it does not, with 77 where an attack cannot
be made."""
import argparse
import dataclasses
import json
import random
import shutil
import sys

import bodies
import connections
import formats
import frames
import memory
import process
import streams
import tiles
from harness import Attack, HttpCall, HttpImageCall, Outcome, nothing_left, run

FEW = {"descriptors": 1024}
SCARCE = {"descriptors": connections.SCARCE_DESCRIPTORS}
TLS = {"tls": True}
IMPATIENT = {"flags": ["--memory-budget=512MiB", "--stall-timeout=2s"]}
SMALL = {"flags": ["--memory-budget=256MiB"]}  # where what is reserved is also used
ROOMY = {"flags": ["--memory-budget=4GiB"]}  # so that slots run out first

FEW_SLOTS = {"flags": ["--memory-budget=4GiB", "--max-concurrent-requests=8"]}

ATTACKS = [
    Attack(tiles.quadratic_cancel),
    Attack(tiles.unread_tiles, seconds=4),
    Attack(tiles.tiny_tiles),
    Attack(tiles.thin_tiles),
    Attack(tiles.broken_message, seconds=1),
    Attack(memory.unknown_fields),
    Attack(memory.large_health_checks),
    Attack(memory.many_options),
    Attack(memory.result_pixels),
    Attack(memory.bombs),
    Attack(memory.zero_window),
    Attack(formats.every_format, nothing_left, seconds=4),
    Attack(formats.slow_encoders, nothing_left, seconds=4),
    Attack(memory.large_metadata, seconds=1),
    Attack(connections.descriptors, server=FEW),
    Attack(connections.silent_connections, server=FEW),
    Attack(connections.half_handshakes, server=TLS | FEW),
    Attack(connections.handshakes, server=TLS),
    Attack(connections.reconnects, server=TLS, seconds=2),
    Attack(connections.session_tickets, server=TLS),
    Attack(connections.scarce_descriptors, connections.has_descriptors_left, server=SCARCE),
    Attack(connections.dropped_connections),
    Attack(connections.http_descriptors, connections.idle_cpu, HttpCall, FEW),
    Attack(connections.http_dripping, victim=HttpCall, seconds=12),
    Attack(connections.http_unread, victim=HttpCall),
    Attack(frames.rapid_reset, seconds=5),
    Attack(frames.refused_calls, frames.ended_for("refused_calls"), seconds=4),
    Attack(frames.provoked_resets, frames.ended_for("server_resets"), seconds=4),
    Attack(frames.control_flood),
    Attack(frames.unread_pings),
    Attack(frames.continuation_flood),
    Attack(frames.header_bomb),
    Attack(frames.empty_data),
    Attack(frames.window_drip),
    Attack(streams.idle_reflection),
    Attack(streams.watches),
    Attack(streams.unfed_streams, server=ROOMY),
    Attack(streams.dripping_streams, server=ROOMY),
    Attack(streams.slow_header, server=ROOMY),
    Attack(streams.unread_results, streams.connections_ended, seconds=8, server=IMPATIENT),
    Attack(streams.hanging_drain, seconds=8),
    Attack(streams.slow_grpc_uploads, seconds=8, server=FEW_SLOTS),
    Attack(streams.slow_grpc_readers, seconds=8, server=FEW_SLOTS),
    Attack(bodies.slow_bodies, victim=HttpImageCall, server=ROOMY),
    Attack(bodies.slow_uploads, victim=HttpImageCall, server=FEW_SLOTS),
    Attack(bodies.slow_readers, victim=HttpImageCall, server=FEW_SLOTS),
    Attack(bodies.empty_scans, victim=HttpImageCall, seconds=8, server=ROOMY),
    Attack(bodies.large_promises, victim=HttpImageCall, server=ROOMY),
    Attack(bodies.unread_answers, victim=HttpImageCall, server=SMALL),
    Attack(bodies.huge_headers, victim=HttpImageCall),
    Attack(bodies.many_connections, victim=HttpImageCall),
    Attack(bodies.chunk_games, victim=HttpImageCall),
    Attack(bodies.form_games, victim=HttpImageCall),
    Attack(bodies.unread_pipelines, victim=HttpImageCall),
    Attack(bodies.ghosts, victim=HttpImageCall),
    Attack(process.unread_stderr, server={"unread": True}),
    Attack(process.reload_storm),
]

COLUMNS = "| attack | longest call s | memory MiB | threads | log KiB | exit s | holds |"


def cells(outcome):
    exit_s = "never" if outcome.exit_code is None else f"{outcome.exit_s:.1f}"
    growth, log = f"+{outcome.growth_bytes >> 20}", f"{outcome.log_bytes >> 10}"
    holds = "no" if outcome.complaints else "yes"
    return [f"{outcome.longest_s:.2f}", growth, str(outcome.threads), log, exit_s, holds]


def row(outcome, before=None):
    """A row of the table; with `before`, an earlier outcome of this attack, each cell shows both."""
    texts = cells(outcome)
    if before is not None:
        texts = [f"{old} → {new}" for old, new in zip(cells(before), texts)]
    return " | ".join([f"| `{outcome.name}`", *texts]) + " |"


def read_outcomes(path):
    """Outcomes by name of what --json printed."""
    if path is None:
        return {}
    with open(path) as file:
        return {outcome["name"]: Outcome(**outcome) for outcome in map(json.loads, file)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="attacks; none for all")
    parser.add_argument("--upscaled", help="the binary to attack")
    parser.add_argument("--scale", type=float, default=1.0, help="factor of each attack's time")
    parser.add_argument("--table", action="store_true", help="print rows of a Markdown table")
    parser.add_argument("--json", action="store_true", help="print an object a line")
    parser.add_argument("--before", metavar="FILE", help="what --json printed for another build; for --table")
    parser.add_argument("--list", action="store_true", help="print the names of all attacks")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(attack.name for attack in ATTACKS))
        return 0
    unknown = set(arguments.names) - {attack.name for attack in ATTACKS}
    if unknown or not arguments.upscaled:
        parser.error(f"no such attack: {unknown}" if unknown else "--upscaled is missing")
    chosen = [attack for attack in ATTACKS if not arguments.names or attack.name in arguments.names]
    if any(attack.server.get("tls") for attack in chosen) and shutil.which("openssl") is None:
        print("SKIPPED: no openssl")
        return 77
    seed = random.randrange(1 << 32)
    random.seed(seed)
    before = read_outcomes(arguments.before)
    if arguments.table:
        print(COLUMNS, "|" + " --- |" * (COLUMNS.count("|") - 1), sep="\n")
    failed = False
    for attack in chosen:
        outcome = run(attack, arguments.upscaled, arguments.scale)
        failed |= bool(outcome.complaints)
        if arguments.table:
            print(row(outcome, before.get(outcome.name)), flush=True)
        elif arguments.json:
            print(json.dumps(dataclasses.asdict(outcome)), flush=True)
        else:
            print(f"{outcome.name}: {'; '.join(outcome.complaints) or 'holds'} ({outcome}, seed {seed})", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
