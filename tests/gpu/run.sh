#!/usr/bin/env bash
# Everything that needs an NVIDIA GPU, in one go: builds, runs the tests of label gpu and compute-sanitizer over a few
# of them, times networks beside PyTorch, and pictures through the server. See README.md.
#
#   run.sh [--bundle DIR] [--build DIR] [--skip-tests] [--skip-sanitizer] [--skip-benches] [--dry-run]
#
# --bundle DIR      run what bundle.sh packed instead of building
# --build DIR       build folder, build/gpu by default
# --skip-PART       leave a part out: with what else may be measured, ten minutes may not do for all
# --dry-run         say what would run and whether it could
# Results: table.md, results.json and logs in $OUT, build/gpu-out by default.
# Exit status: 0 all is well, 77 there is no GPU or nothing to build with, 1 a test or bench failed.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
usage() { sed -n '5,12s/^# \{0,1\}//p' "$root/tests/gpu/run.sh"; }
out=$(realpath -m "${OUT:-$root/build/gpu-out}")
build=$root/build/gpu bundle='' dry='' tests=1 sanitizer=1 benches=1
while (($#)); do
  case $1 in
    --bundle) bundle=$(realpath -e "${2:?--bundle needs a folder}"); shift ;;
    --build) build=$(realpath -m "${2:?--build needs a folder}"); shift ;;
    --skip-tests) tests='' ;;
    --skip-sanitizer) sanitizer='' ;;
    --skip-benches) benches='' ;;
    --dry-run) dry=1 ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done
cd "$root"

say() { printf '\n==> %s\n' "$*"; }
skip() { echo "run.sh: skipped: $*" >&2; exit 77; }
failed=0
fail() { echo "run.sh: FAILED: $*" >&2; failed=1; }

command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1 || skip "there is no NVIDIA GPU, or no driver for it"
if [[ -z $bundle ]]; then
  { command -v nvcc || ls /usr/local/cuda/bin/nvcc; } >/dev/null 2>&1 || skip "there is no nvcc"
  command -v cmake >/dev/null && command -v ninja >/dev/null || skip "there is no cmake or ninja; see bundle.sh"
fi
nvidia-smi -L
[[ -z $dry ]] || { echo "run.sh: would run ${bundle:-a build in $build}, into $out"; exit 0; }
mkdir -p "$out"

gpu_tests=(cuda_driver_tests cuda_device_kernel_tests cuda_image_tests cuda_backend_tests cuda_conformance_tests
  cuda_pipeline_tests cuda_golden_tests)
if [[ -z $bundle ]]; then
  say "Building"
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DUPSCALED_BASELINES=OFF >"$out/configure.log" 2>&1 ||
    { tail -n 20 "$out/configure.log"; skip "what the build needs is missing; see bundle.sh"; }
  cmake --build "$build" --target upscaled_cuda cuda-bench upscaled upscale "${gpu_tests[@]}" >"$out/build.log" 2>&1 ||
    { tail -n 40 "$out/build.log"; exit 1; }
  bin=$build/bin test_folder=$build/tests
  ours=()
else
  bin=$bundle/bin test_folder=$bundle/tests
  # For our programs alone: others bring their own libraries.
  ours=(env "LD_LIBRARY_PATH=$bundle/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}")
fi

run_test() {
  local name=$1 log=$out/$1.log filter='*'
  case $name in cuda_conformance_tests | cuda_golden_tests | cuda_pipeline_tests) filter='Devices/*' ;; esac
  if ! timeout -k 10 300 "${ours[@]}" "$test_folder/$name" --gtest_filter="$filter" >"$log" 2>&1; then
    grep -E '^\[  FAILED|: Failure' -A 4 "$log" | head -n 40 || tail -n 20 "$log"
    fail "$name"
  fi
  # What skips itself where it should run is no success; some tests are for want of a driver, or of goldens.
  if grep -qE 'SKIPPED +\] [0-9]+ test' "$log" && [[ $name != cuda_driver_tests && $name != cuda_golden_tests ]]; then
    fail "$name skipped tests: $(grep -m 1 -A 1 'Skipped$' "$log" | tail -n 1)"
  fi
  tail -n 3 "$log" | grep -E 'PASSED|SKIPPED|FAILED' | sed "s/^/$name: /" || true
}
if [[ -n $tests ]]; then
  say "Tests"
  for name in "${gpu_tests[@]}"; do run_test "$name"; done
fi

run_sanitizer() {
  local program tool log status
  program=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null) ||
    { echo "not installed: left out"; return; }
  for tool in memcheck racecheck initcheck; do
    log=$out/sanitizer-$tool.log status=0
    timeout -k 10 150 "${ours[@]}" "$program" --tool "$tool" --error-exitcode 9 "$test_folder/cuda_device_kernel_tests" \
      --gtest_filter='*AgreeWithTheReference*:*PooledSums*' >"$log" 2>&1 || status=$?
    if ((status == 0)); then
      echo "$tool: clean"
    elif ((status == 124)) && ! grep -qE '^=+ +(Invalid|Error|Uninitialized|Program hit)' "$log"; then
      echo "$tool: nothing found, but not through in 150 s"
    elif grep -q 'Device not supported\|[Uu]nable to' "$log"; then
      echo "$tool: does not work here"
    else
      tail -n 5 "$log"
      fail "compute-sanitizer $tool, exit status $status"
    fi
  done
}
if [[ -n $sanitizer ]]; then
  say "compute-sanitizer"
  run_sanitizer
fi
[[ -n $benches ]] || exit "$failed"

say "Networks by the device's clock"
timeout -k 10 300 "${ours[@]}" "$bin/cuda-bench" >"$out/cuda.json" 2>"$out/cuda.log" || { cat "$out/cuda.log"; fail cuda-bench; }

say "PyTorch"
status=0
timeout -k 10 300 python3 tests/gpu/torch_bench.py >"$out/torch.json" 2>"$out/torch.log" || status=$?
case $status in
  0) ;;
  77 | 127) cat "$out/torch.log" ;;  # no PyTorch, no Python
  *) tail -n 5 "$out/torch.log"; fail "torch_bench.py" ;;
esac

say "Through the server"
"${ours[@]}" "$bin/upscaled" --device cuda --listen 127.0.0.1:0 --http off --model-repository engine/model/bundled \
  --precision fast --tune full --tune-file "$out/tune.json" >"$out/upscaled.log" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null || true' EXIT
for _ in $(seq 300); do
  grep -q ' ready ' "$out/upscaled.log" && break
  kill -0 "$server" 2>/dev/null || break
  sleep 0.2
done
rows=()
if address=$(grep -q ' ready ' "$out/upscaled.log" && grep -oEm 1 '127\.0\.0\.1:[0-9]+' "$out/upscaled.log"); then
  for clients in 1 4; do
    row=$("${ours[@]}" "$bin/upscale" load --server "$address" --clients "$clients" --seconds 5 --size 960x540 --json \
      2>>"$out/load.log") && rows+=("{\"clients\": $clients, \"load\": $row}") ||
      { tail -n 3 "$out/load.log"; fail "upscale load"; }
  done
fi
(IFS=,; echo "[${rows[*]}]") >"$out/service.json"
kill -TERM "$server" 2>/dev/null || true
wait "$server" || { tail -n 3 "$out/upscaled.log"; fail "upscaled"; }
trap - EXIT

python3 tests/gpu/report.py "$out" && sed -n '1,/^## /p' "$out/table.md" | sed '$d'
exit "$failed"
