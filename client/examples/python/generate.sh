#!/usr/bin/env bash
# Generates the Python stubs. Usage: generate.sh [FOLDER], by default generated/ next to this script.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/generated}
mkdir -p "$out"
protoc -I "$here/../../../proto" --python_out="$out" --grpc_out="$out" \
  --plugin=protoc-gen-grpc="$(command -v grpc_python_plugin)" \
  upscale/v1/upscale.proto google/rpc/status.proto google/rpc/error_details.proto
