#!/usr/bin/env bash
# Checks that every header compiles alone. Usage: headers.sh COMPILE_COMMANDS_DIR
# The flags are those of a translation unit of the same top folder.
set -euo pipefail
cd "$(dirname "$0")/../.."
generated="-isystem $1/proto/generated -isystem $1/engine/model/generated"
# Those of a plugin need its headers, which a machine may lack.
cuda=/usr/local/cuda/include
[[ ! -d $cuda ]] || generated+=" -isystem $cuda"
optional=()
lacks() { ! echo "#include <$1>" | "${CXX:-c++}" -E $generated -x c++ - >/dev/null 2>&1; }
lacks CL/opencl.hpp && optional+=(-not -path 'engine/*/opencl/*')
lacks cuda_runtime_api.h && optional+=(-not -path 'engine/*/cuda/*')
find engine server client -name '*.h' -not -path '*/node_modules/*' "${optional[@]}" -print0 |
  xargs -0 -P "$(nproc)" -I{} sh -c \
    '"${CXX:-c++}" -std=c++20 -fsyntax-only -I. '"$generated"' -include "$1" -x c++ /dev/null ||
     { echo "does not compile alone: $1"; exit 1; }' _ {}
