#!/usr/bin/env bash
# Packs what run.sh needs for a machine that has a GPU and nothing to build with: programs, tests, the plugin and
# the shared libraries that they load, into a folder that travels with the sources. Usage: bundle.sh BUILD [FOLDER]
# BUILD is a build folder with cuda-bench and the tests of label gpu; FOLDER is build/gpu-bundle.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
[[ $# -ge 1 ]] || { sed -n '2,4s/^# //p' "$root/tests/gpu/bundle.sh" >&2; exit 2; }
build=$(cd "$1" && pwd)
bundle=${2:-$root/build/gpu-bundle}

rm -rf "$bundle"
mkdir -p "$bundle"/{bin,tests,lib}
cp "$build"/bin/{cuda-bench,upscaled,upscale} "$bundle/bin/"
cp "$build"/tests/cuda_{driver,device_kernel,image,backend,conformance,pipeline,golden}_tests "$bundle/tests/"
# Tests and programs find their plugins at one place, seen from their own folder.
plugin=$(cd "$build" && find . -path '*/upscaled/libupscaled_cuda.so' -print -quit)
install -D "$build/$plugin" "$bundle/$plugin"
# All but the C and C++ runtimes, which belong to the other machine.
find "$bundle" -type f -exec ldd {} + | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
  grep -Ev '/(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|ld-linux[^/]*)\.so' |
  xargs -r cp -Lt "$bundle/lib"
find "$bundle" -type f -exec strip --strip-unneeded {} +
du -sh "$bundle"
