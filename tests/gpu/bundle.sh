#!/usr/bin/env bash
# Packs what run.sh needs for a machine that has a GPU and nothing to build with: programs, tests, the plugin and
# the shared libraries that they load, and the goldens with their models, where there are some, into a file that
# travels with the sources. Usage: bundle.sh BUILD [FILE]
# BUILD is a build folder with cuda-bench and the tests of label gpu; FILE is build/gpu-bundle.tgz.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
[[ $# -ge 1 ]] || { sed -n '2,5s/^# //p' "$root/tests/gpu/bundle.sh" >&2; exit 2; }
build=$(cd "$1" && pwd)
file=$(realpath -m "${2:-$root/build/gpu-bundle.tgz}")
bundle=$(mktemp -d)
trap 'rm -rf "$bundle"' EXIT

mkdir -p "$bundle"/{bin,tests,lib,shared}
cp "$build"/bin/{cuda-bench,upscaled,upscaled-prove,upscale,upscale-train} "$bundle/bin/"
cp "$build"/tests/cuda_{driver,device_kernel,image,backend,conformance,pipeline,golden}_tests "$bundle/tests/"
# The prototype of conv3x3_ws, where its sources are: probes and ceilings (run.sh --kernels).
shared=${UPSCALED_TEST_MODELS:-$root/../shared}
prototype=$shared/prototype/gpu-ws/bench.cu
nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || true)
if [[ -e $prototype && -n $nvcc ]]; then
  "$nvcc" -std=c++20 -O3 --expt-relaxed-constexpr -fmad=false -gencode=arch=compute_90a,code=sm_90a -w \
    -o "$bundle/bin/ws-bench" "$prototype" || echo "bundle.sh: $prototype does not compile: left out" >&2
fi
# Tests and programs find their plugins at one place, seen from their own folder.
plugin=$(cd "$build" && find . -path '*/upscaled/libupscaled_cuda.so' -print -quit)
install -D "$build/$plugin" "$bundle/$plugin"
# All but the C and C++ runtimes, which belong to the other machine.
find "$bundle" -type f -exec ldd {} + | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
  grep -Ev '/(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|ld-linux[^/]*)\.so' |
  xargs -r cp -Lt "$bundle/lib"
find "$bundle" -type f -exec strip --strip-unneeded {} +
git -C "$root" rev-parse HEAD >"$bundle/commit" 2>/dev/null || true
for part in golden models; do
  [[ ! -d $shared/$part ]] || cp -rL --no-preserve=mode "$shared/$part" "$bundle/shared/"
done
mkdir -p "$(dirname "$file")"
tar -C "$bundle" --exclude='*.onnx' -caf "$file" .
du -h "$file"
