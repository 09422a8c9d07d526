#!/usr/bin/env bash
# Checks formatting with the clang-format that the project uses (14; others differ): 77 = skipped.
set -euo pipefail
cd "$(dirname "$0")/../.."
tool=$(command -v clang-format-14 || command -v clang-format || true)
[[ -n $tool ]] && "$tool" --version | grep -q 'version 14\.' || { echo "needs clang-format 14"; exit 77; }
find engine server client tests \( -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' \) -not -path '*/node_modules/*' -print0 |
  xargs -0 "$tool" --dry-run -Werror
