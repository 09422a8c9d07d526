#!/usr/bin/env bash
# Runs every fuzz target of a build from its seeds: run.sh BUILD_DIR [SECONDS for each]
set -euo pipefail

build=$(cd "$1" && pwd)
seconds=${2:-10}
here=$(cd "$(dirname "$0")" && pwd)

for target in "$build"/fuzz/fuzz_*; do
  [[ -x $target && ! -d $target ]] || continue
  name=$(basename "$target")
  found=$build/fuzz/corpus/${name#fuzz_}  # new inputs go here, not into the sources
  mkdir -p "$found"
  echo "$name: $seconds s"
  (cd "$build/fuzz" && "$target" -max_total_time="$seconds" -timeout=10 -malloc_limit_mb=512 \
    -print_final_stats=1 -print_funcs=0 -verbosity=0 "$found" "$here/corpus/${name#fuzz_}")
done
