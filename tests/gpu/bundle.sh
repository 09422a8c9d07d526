#!/usr/bin/env bash
# Packs what run.sh needs for a machine that has a GPU and nothing to build with: programs, tests, plugins and
# the shared libraries that they load, into a folder that travels with the sources. Usage: bundle.sh BUILD [FOLDER]
# BUILD is a build folder with upscale-bench, cuda-bench and the tests of label gpu; FOLDER is build/gpu-bundle.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
[[ $# -ge 1 ]] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
build=$(cd "$1" && pwd)
bundle=${2:-$root/build/gpu-bundle}

rm -rf "$bundle"
mkdir -p "$bundle"/{bin,tests,lib}
for path in "$build"/tests/cuda_*_tests "$build"/bin/{cuda-bench,upscale-bench,upscaled,upscale}; do
  [[ -x $path ]] && cp "$path" "$bundle/$(basename "$(dirname "$path")")/"
done
[[ -x $bundle/bin/cuda-bench ]] || { echo "bundle.sh: no cuda-bench in $build: was there an nvcc?" >&2; exit 1; }
# Tests and programs find their plugins at one place, seen from their own folder.
plugin=$(cd "$build" && find . -name libupscaled_cuda.so | head -n 1)
install -D "$build/$plugin" "$bundle/$plugin"
# All but the C and C++ runtimes, which belong to the other machine.
find "$bundle" -type f -exec ldd {} + 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
  grep -Ev '/(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|libgomp|ld-linux[^/]*)\.so' |
  xargs -r cp -Lt "$bundle/lib"
find "$bundle" -type f -exec strip --strip-unneeded {} + 2>/dev/null || true
du -sh "$bundle"
