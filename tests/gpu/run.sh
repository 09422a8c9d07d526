#!/usr/bin/env bash
# Everything that needs an NVIDIA GPU, in one go: builds, runs the tests of label gpu and compute-sanitizer over a few
# of them, times networks beside PyTorch, and pictures through the server. See README.md.
#
#   run.sh [--bundle DIR] [--build DIR] [--skip-benches] [--dry-run]
#
# --bundle DIR    run what bundle.sh packed instead of building
# --build DIR     build folder, build/gpu by default
# --skip-benches  correctness alone
# --dry-run       say what would run and whether it could
# Results: table.md, results.json and logs in $OUT, build/gpu-out by default.
# Exit status: 0 all is well, 77 there is no GPU or nothing to build with, 1 a test or bench failed.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
out=${OUT:-$root/build/gpu-out}
build=$root/build/gpu bundle='' dry='' benches=1
while (($#)); do
  case $1 in
    --bundle) bundle=$(cd "$2" && pwd); shift ;;
    --build) build=$2; shift ;;
    --skip-benches) benches='' ;;
    --dry-run) dry=1 ;;
    *) sed -n '5,12s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
  shift
done

say() { printf '\n==> %s\n' "$*"; }
skip() { echo "run.sh: skipped: $*" >&2; exit 77; }
failed=0
fail() { echo "run.sh: FAILED: $*" >&2; failed=1; }

command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1 || skip "there is no NVIDIA GPU, or no driver for it"
if [[ -z $bundle ]]; then
  nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null) || skip "there is no nvcc"
  command -v cmake >/dev/null && command -v ninja >/dev/null || skip "there is no cmake or ninja; see bundle.sh"
fi
nvidia-smi -L
[[ -z $dry ]] || { echo "run.sh: would run ${bundle:+the bundle $bundle}${bundle:-a build in $build}, into $out"; exit 0; }
mkdir -p "$out"

if [[ -z $bundle ]]; then
  say "Building"
  export CUDACXX=$nvcc
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release >"$out/configure.log" 2>&1 ||
    { tail -n 20 "$out/configure.log"; skip "what the build needs is missing; see bundle.sh"; }
  targets=(upscaled_cuda cuda-bench upscaled upscale upscale-bench cuda_plan_tests cuda_conformance_tests
    cuda_golden_tests cuda_pipeline_tests cuda_driver_tests cuda_device_kernel_tests cuda_backend_tests)
  cmake --build "$build" --target "${targets[@]}" >"$out/build.log" 2>&1 || { tail -n 40 "$out/build.log"; exit 1; }
  bin=$build/bin tests=$build/tests
else
  bin=$bundle/bin tests=$bundle/tests
  export LD_LIBRARY_PATH=$bundle/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi

say "Tests"
for test in "$tests"/cuda_*_tests; do
  name=$(basename "$test")
  filter='*'
  case $name in cuda_conformance_tests | cuda_golden_tests | cuda_pipeline_tests) filter='Devices/*' ;; esac
  if ! "$test" --gtest_filter="$filter" >"$out/$name.log" 2>&1; then
    grep -E '^\[  FAILED|: Failure' -A 4 "$out/$name.log" | head -n 40 || tail -n 20 "$out/$name.log"
    fail "$name"
  fi
  # What skips itself where it should run is no success.
  if grep -qE 'SKIPPED +\] [0-9]+ test' "$out/$name.log" && [[ $name != cuda_driver_tests && $name != cuda_golden_tests ]]; then
    fail "$name skipped tests: $(grep -m 1 -i -A 1 'Skipped$' "$out/$name.log" | tail -n 1)"
  fi
  tail -n 3 "$out/$name.log" | grep -E 'PASSED|SKIPPED|FAILED' | sed "s/^/$name: /" || true
done

say "compute-sanitizer"
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null || true)
if [[ -z $sanitizer ]]; then
  echo "not installed: left out"
else
  for tool in memcheck racecheck initcheck; do
    log=$out/sanitizer-$tool.log
    if timeout 150 "$sanitizer" --tool "$tool" --error-exitcode 9 "$tests/cuda_device_kernel_tests" \
      --gtest_filter='*OtherLayers*:*PooledSums*' >"$log" 2>&1; then
      echo "$tool: clean"
    elif grep -q 'Device not supported\|unable to' "$log"; then
      echo "$tool: does not work here"
    else
      tail -n 5 "$log"
      fail "compute-sanitizer $tool"
    fi
  done
fi
[[ -n $benches ]] || exit "$failed"

say "Networks by the device's clock"
"$bin/cuda-bench" >"$out/cuda.json" 2>"$out/cuda.log" || { cat "$out/cuda.log"; fail cuda-bench; }

say "PyTorch"
status=0
python3 tests/gpu/torch_bench.py >"$out/torch.json" 2>"$out/torch.log" || status=$?
case $status in
  0) ;;
  77) cat "$out/torch.log" ;;
  *) tail -n 5 "$out/torch.log"; fail "torch_bench.py" ;;
esac

say "Through the server"
if [[ -x $bin/upscaled && -x $bin/upscale ]]; then
  "$bin/upscaled" --device cuda --listen 127.0.0.1:0 --http off --model-repository engine/model/bundled \
    --precision fast >"$out/upscaled.log" 2>&1 &
  server=$!
  trap 'kill "$server" 2>/dev/null || true' EXIT
  address=''
  for _ in $(seq 100); do
    address=$(grep -oEm 1 '127\.0\.0\.1:[0-9]+' "$out/upscaled.log" || true)
    [[ -n $address ]] && break
    sleep 0.2
  done
  rows=()
  for clients in 1 4; do
    row=$("$bin/upscale" load --server "$address" --clients "$clients" --seconds 5 --size 960x540 --json \
      2>>"$out/load.log") && rows+=("{\"clients\": $clients, \"load\": $row}") || { tail -n 3 "$out/load.log"; fail "upscale load"; }
  done
  (IFS=,; echo "[${rows[*]}]") >"$out/service.json"
  kill -TERM "$server"
  wait "$server" || fail "upscaled"
  trap - EXIT
else
  echo "not built: left out"
fi

python3 tests/gpu/report.py "$out" && sed -n '1,/^## /p' "$out/table.md" | sed '$d'
exit "$failed"
