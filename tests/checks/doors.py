#!/usr/bin/env python3
"""Checks that every #include stays within the interfaces of the architecture, and what CONTRIBUTING.md says of them:
that it draws them, and that the walk of a tile names functions that are there, each of which names the next one,
and enters no room twice.

Each folder lists the folders it may include from; itself is always allowed, without the sub-folders that have
a line of their own. A folder inherits nothing: what is not listed is refused. Run from anywhere; prints each error
and exits with 1. With --draw it puts the drawing of this table into CONTRIBUTING.md.
"""
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
DRAWING = re.compile(r"(^```rooms\n)(.*?)(^```$)", re.M | re.S)
HAND_OVER = "on another thread"  # what the line of a function says that the one before does not call
WALK = re.compile(r"^```walk\n(.*?)^```$", re.M | re.S)

BACKEND_INTERFACE = "engine/backends/backend.h"
CHOICE_INTERFACE = "engine/graph/kernel_choice.h"
PROFILE_INTERFACE = "engine/backends/layer_profile.h"
# Instruction sets and the transforms of Winograd's algorithm, for kernels outside of the backend.
ISA_CODE = [f"engine/backends/cpu/kernels/{name}.h" for name in ("isa", "isa_dispatch", "winograd_transform-inl", "winograd_weights")]
OVERFLOW = "engine/backends/overflow.h"
ENGINE_INTERFACE = ["engine/autotune/tuner.h", "engine/base", "engine/image", "engine/model", "engine/pipeline", "engine/backends/backend.h",
               "engine/backends/backend_list.h"]
# All that submitters and workers see of the queue of jobs.
QUEUE_INTERFACE = ["server/jobs/cancel_job.h", "server/jobs/film_part.h", "server/jobs/job_failure.h", "server/jobs/job_message.h", "server/jobs/job_place.h", "server/jobs/job_queue.h", "server/jobs/task.h"]

# folder -> prefixes (folders or single files) it may include. The longest matching folder rules.
MAY_INCLUDE = {
    "engine/base": [],
    "engine/image": ["engine/base"],
    "engine/model": ["engine/base"],
    "engine/graph": ["engine/base", "engine/model"],
    "engine/backends": ["engine/base", "engine/image", "engine/model", "engine/graph", "engine/backends/reference/reference_backend.h",
                        "engine/backends/cpu/cpu_backend.h"],
    "engine/backends/reference": ["engine/base", "engine/image", "engine/model", "engine/graph", BACKEND_INTERFACE, PROFILE_INTERFACE],
    "engine/backends/cpu": ["engine/base", "engine/image", "engine/model", "engine/graph", BACKEND_INTERFACE,
                            PROFILE_INTERFACE, OVERFLOW],
    "engine/backends/opencl": ["engine/base", "engine/image", "engine/model", "engine/graph", BACKEND_INTERFACE,
                               PROFILE_INTERFACE, "engine/backends/plugin.h"],
    "engine/backends/cuda": ["engine/base", "engine/image", "engine/model", "engine/graph", BACKEND_INTERFACE,
                             PROFILE_INTERFACE, OVERFLOW, "engine/backends/plugin.h", "engine/backends/cuda/kernels"],
    "engine/backends/cuda/kernels": ["engine/base", "engine/model", "engine/graph"],
    "engine/autotune": ["engine/base", "engine/model", CHOICE_INTERFACE, "engine/backends/reference/layers.h"],
    "engine/proof": ["engine/base", "engine/image", "engine/model", "engine/graph", BACKEND_INTERFACE, PROFILE_INTERFACE],
    "engine/pipeline": ["engine/base", "engine/image", "engine/model", "engine/graph", BACKEND_INTERFACE],
    "engine/c_api": ["engine/base", "engine/model", "engine/pipeline", BACKEND_INTERFACE, "engine/backends/backend_list.h"],
    "engine/train": ["engine/base", "engine/image", "engine/model"] + ISA_CODE,
    "proto/json": [],
    "server/base": ["engine/base"],
    "server/config": ["engine/base", "engine/model/precision.h", "server/base", "server/admission/limits.h", "server/fetch/url_prefix.h",
                      "server/telemetry/logger.h"],
    "server/telemetry": ["engine/base", "server/base", "server/batching/tile_observer.h", "server/net/connection_table.h"],
    "server/admission": ["engine/base", "server/base", "server/net/token_bucket.h"],
    "server/batching": ["engine/base", "engine/pipeline", BACKEND_INTERFACE, "server/base", "server/devices"],
    "server/devices": ["engine/base", "engine/model", BACKEND_INTERFACE, "server/base", "server/models", "server/telemetry/logger.h"],
    "server/net": ["engine/base", "server/base"],
    "server/identity": ["engine/base", "server/base", "server/net/token_bucket.h"],
    "server/http": ["engine/base", "server/base", "server/identity/principal.h", "server/net", "server/spool"],
    "server/spool": ["engine/base", "server/base", "server/admission/address_shares.h"],
    "server/fetch": ["engine/base", "engine/image/byte_stream.h", "server/base"],
    "server/models": ["engine/base", "engine/model", "engine/graph", BACKEND_INTERFACE, "server/base"],
    "server/options": ["server/base", "engine/base", "engine/image", "engine/model", "engine/pipeline", "upscale/v1"],
    "server/sandbox": ["engine/base", "engine/image", "server/base"],
    "server/jobs": ["upscale/v1", "proto/json", "engine/base", "engine/image/byte_stream.h", "engine/image/memory_io.h", "server/base"],
    "server/results": ["engine/base", "engine/image", "engine/model", "server/base", "upscale/v1"],
    "server/calls": ["server/base", "server/identity", "server/admission", "engine/base"],
    "server/handlers": ["server/base", "server/calls", "server/identity", "server/results", "server/telemetry/usage_ledger.h", "server/admission", "server/devices", "server/models", "server/options", "server/batching", "server/proof/kernel_proofs.h", "engine/base",
                        "engine/image", "engine/model", "engine/pipeline", "upscale/v1"],
    "server/rest": ["server/base", "server/calls", "server/identity", "server/jobs", "server/results", "server/admission", "server/fetch", "server/handlers", "server/http", "server/options", "engine/base", "engine/image", "upscale/v1", "proto/json"],
    "server/rpc": ["server/base", "server/calls", "server/identity", "server/admission", "server/handlers", "server/options", "server/spool", "engine/base", "upscale/v1", "google/rpc",
                   "grpc/health/v1"],
    "server/proof": ["engine/base", "engine/proof", "engine/backends/backend_list.h", "server/telemetry/logger.h"],
    "server/lifecycle": ["server"] + ENGINE_INTERFACE,
    "server": ["server/base/timer.h", "server/config", "server/identity/keys_command.h", "server/lifecycle", "server/telemetry"],
    "client/worker": ["client/video", "upscale/v1", "proto/json", "client/error_details.h", "client/http/http_target.h", "client/image_io.h", "client/retry.h", "client/service.h", "client/temporary_folder.h",
                      "engine/base/random_uuid.h", "engine/base/status_macros.h", "engine/base/string_view.h", "engine/base/unique_fd.h", "engine/base/unnamed_file.h", "engine/base/with_prefix.h",
                      "server/base/spool_folder.h", "server/fetch/address_kind.h", "server/fetch/source_url.h", "server/fetch/url_prefix.h"] + QUEUE_INTERFACE,
    "client": ["client/worker", "client/spread", "client/video", "upscale/v1", "proto/json", "google/rpc", "grpc/health/v1", "engine/base/file_kind.h", "engine/base/nearest_names.h",
               "engine/base/random_uuid.h", "engine/base/status_macros.h", "engine/base/unique_fd.h", "engine/base/unix_address.h",
               "server/base/url_signature.h"] + QUEUE_INTERFACE,
    "client/video": ["client/error_details.h", "client/image_io.h", "client/service.h", "upscale/v1", "engine/base", "engine/image"],
    "client/spread": ["client/upscale_client.h", "client/error_details.h", "upscale/v1", "engine/base", "engine/image",
                      "engine/model/repository.h", "engine/pipeline", BACKEND_INTERFACE, "server/options"],
}
PROJECT = re.compile(r'^\s*#\s*include\s+["<]((?:engine|server|client|proto/json|upscale|google/rpc|grpc/health|tests)/[^">]+)[">]')
WIRE = r'#\s*include\s+[<"](grpc|grpcpp|google/protobuf)\b'
# folder -> what its files must not contain. Only rpc knows gRPC. The engine reads no environment,
# and Protobuf only for a model format that is made of it.
FORBIDDEN = {"engine": re.compile(WIRE + r"|\bgetenv\b")}
ALLOWED = {"engine/model/onnx": re.compile(r"google/protobuf/"), "server/jobs": re.compile(r"google/protobuf/"), "server/rest": re.compile(r"google/protobuf/")}
FORBIDDEN |= {f"server/{d}": re.compile(WIRE) for d in ("admission", "base", "batching", "calls", "config", "devices", "fetch", "handlers", "http", "identity", "jobs",
                                                        "lifecycle", "models", "net", "options", "rest", "results", "sandbox", "telemetry")}


def rule_for(folder: str) -> str | None:
    while folder and folder not in MAY_INCLUDE:
        folder = folder.rpartition("/")[0]
    return folder or None


def may_include(folder: str, target: str) -> bool:
    own = rule_for(target.rpartition("/")[0]) == folder
    return own or any(target == p or target.startswith(p + "/") for p in MAY_INCLUDE[folder])


def leads(room: str, other: str) -> bool:
    """Whether `other` is a part of `room` or of a whole folder that `room` may include."""
    return other.startswith(room + "/") or any(
        other.startswith(p + "/") or (other == p and not room.startswith(p + "/")) for p in MAY_INCLUDE[room])


def outside_in() -> list[str]:
    """The rooms so that whatever leads to a room stands above it."""
    rooms, rest = [], list(reversed(MAY_INCLUDE))
    while rest:
        top = [room for room in rest if not any(leads(other, room) for other in rest if other != room)]
        if not top:
            sys.exit(f"a circle of includes among {', '.join(rest)}")
        rooms.append(top[0])
        rest.remove(top[0])
    return rooms


def draw() -> str:
    """A line a room: "room -> engine: base image; proto"."""
    drawing, width = "", max(map(len, MAY_INCLUDE))
    for room in outside_in():
        arrows: dict[str, list[str]] = {}
        for target in MAY_INCLUDE[room]:
            top, _, name = target.partition("/")
            arrows.setdefault(top if top in ("client", "engine", "server") else "proto", []).append(name or "every room")
        text = "; ".join("proto" if top == "proto" else f"{top}: {' '.join(names)}" for top, names in arrows.items())
        drawing += textwrap.fill(f"{room:{width}} -> {text}" if text else room, 110, subsequent_indent=" " * (width + 4),
                                 break_on_hyphens=False) + "\n"
    return drawing


def body_of(file: pathlib.Path, function: str) -> str:
    """The function's definition from its opening brace; "" where the file has none. "Class::Name" may be inside the class."""
    text = file.read_text() if file.exists() else ""
    owner, _, name = function.rpartition("::")
    outside = re.search(rf"\b{function}\([^;{{}}]*\{{", text)
    inside = re.search(rf"\bclass {owner}\b.*?\b{name}\([^;{{}}]*\{{", text, re.S) if owner else None
    match = outside or inside
    if not match:
        return ""
    end, depth = match.end(), 1
    while depth and end < len(text):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        end += 1
    return text[match.end():end]


def walk_errors(contributing: str) -> list[str]:
    """Wrong lines of the walk, each of which begins with a file and a function that it defines, and that the function
    before names, but where the line says that it runs on another thread."""
    wrong, rooms, caller, body = [], [], "", ""
    for path, function, *says in map(str.split, WALK.search(contributing)[1].splitlines()):
        name = function.rpartition("::")[2]
        if caller and not re.search(rf"\b{name}\(", body) and HAND_OVER not in " ".join(says):
            wrong.append(f"CONTRIBUTING.md: {caller} does not name {function}")
        caller, body = function, body_of(ROOT / path, function)
        if not body:
            wrong.append(f"CONTRIBUTING.md: {path} defines no {function}")
        room = path.rpartition("/")[0]
        if room in rooms[:-1]:
            wrong.append(f"CONTRIBUTING.md: the walk of a tile enters {room} twice")
        rooms += [room] if room not in rooms else []
    return wrong


def main() -> int:
    text = CONTRIBUTING.read_text()
    drawn = DRAWING.sub(lambda match: match[1] + draw() + match[3], text)
    if "--draw" in sys.argv[1:]:
        CONTRIBUTING.write_text(drawn)
        return 0
    wrong = [] if text == drawn else ["CONTRIBUTING.md: its drawing of the rooms is not this table's; run doors.py --draw"]
    wrong += walk_errors(text)
    for top in ("engine", "server", "client"):
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix not in {".h", ".cc", ".cu", ".cuh", ".inc"} or "node_modules" in path.parts:
                continue
            name = path.relative_to(ROOT).as_posix()
            rule = rule_for(name.rpartition("/")[0])
            if rule is None:
                wrong.append(f"{name}: its folder has no entry in MAY_INCLUDE")
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                match = PROJECT.match(line)
                if match and not may_include(rule, match[1]):
                    wrong.append(f"{name}:{number}: {rule} may not include {match[1]}")
                for folder, pattern in FORBIDDEN.items():
                    allowed = ALLOWED.get(name.rpartition("/")[0])
                    if name.startswith(folder + "/") and pattern.search(line) and not (allowed and allowed.search(line)):
                        wrong.append(f"{name}:{number}: not in {folder}: {line.strip()}")
    print("\n".join(wrong) or "all includes are allowed ones")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
