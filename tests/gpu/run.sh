#!/usr/bin/env bash
# Everything that needs an NVIDIA GPU, in one go: builds, runs the tests of label gpu and compute-sanitizer over a few
# of them, times networks next to PyTorch, and images through the server. See README.md.
#
#   run.sh [--bundle FILE] [--build DIR] [--kernels] [--skip-tests] [--skip-sanitizer] [--skip-benches] [--dry-run]
#
# --bundle FILE     run what bundle.sh packed instead of building
# --build DIR       build folder, build/gpu by default
# --kernels         only for kernels that no card has run: probes, proofs, networks without and with them next to
#                   PyTorch, compute-sanitizer over those for Hopper, ncu over five layers
# --skip-PART       leave a part out: all of them may not fit into the time
# --dry-run         say what would run and whether it could
# Results: table.md, results.json and logs.tgz in $OUT, build/gpu-out by default, after every part.
# A hang is ended; all that follows a build ends after $UPSCALED_TEST_SECONDS, 540 by default.
# Exit status: 0 all is well, 77 there is no GPU or nothing to build with, 1 a test or bench failed.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
usage() { sed -n '5,15s/^# \{0,1\}//p' "$root/tests/gpu/run.sh"; }
out=$(realpath -m "${OUT:-$root/build/gpu-out}")
build=$root/build/gpu bundle='' dry='' kernels='' tests=1 sanitizer=1 benches=1
while (($#)); do
  case $1 in
    --bundle) bundle=$(realpath -e "${2:?--bundle needs a file}"); shift ;;
    --build) build=$(realpath -m "${2:?--build needs a folder}"); shift ;;
    --kernels) kernels=1 tests='' sanitizer='' ;;
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

say() { printf '\n==> %s (%d s)\n' "$*" "$SECONDS"; }
skip() { echo "run.sh: skipped: $*" >&2; exit 77; }
failed=0
fail() {  # WHAT [STATUS]
  local how=${2:+, exit status $2}
  case ${2:-} in 124 | 137) how+=': a hang, or no time left' ;; esac
  echo "run.sh: FAILED: $1$how" >&2
  failed=1
}

gpus=$(timeout -k 5 60 nvidia-smi -L 2>/dev/null) || skip "there is no NVIDIA GPU, or no driver for it"
if [[ -z $bundle ]]; then
  { command -v nvcc || ls /usr/local/cuda/bin/nvcc; } >/dev/null 2>&1 || skip "there is no nvcc"
  command -v cmake >/dev/null && command -v ninja >/dev/null || skip "there is no cmake or ninja; see bundle.sh"
fi
echo "$gpus"
[[ -z $dry ]] || { echo "run.sh: would run ${bundle:-a build in $build}, into $out"; exit 0; }
capability=$(timeout -k 5 60 nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1) ||
  skip "nvidia-smi does not answer"

mkdir -p "$out"
work=$(mktemp -d) server=''
logs=$work/logs
mkdir "$logs"
# Three files, whatever was measured.
collect() {
  timeout -k 5 20 python3 tests/gpu/report.py "$logs" "$out" || true
  timeout -k 5 20 tar -C "$work" -czf "$out/logs.tgz" logs || true
}
finish() {
  [[ -z $server ]] || kill "$server" 2>/dev/null || true
  collect
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 143' INT TERM

# Kernels that no card of ours has run yet.
new_kernels=(half_epilogue conv3x3_ws thin_ws enlarge_ws folded_gates)
gpu_tests=(cuda_driver_tests cuda_image_tests cuda_backend_tests cuda_conformance_tests cuda_pipeline_tests
  cuda_golden_tests)
shared=${UPSCALED_TEST_MODELS:-$root/../shared}
if [[ -z $bundle ]]; then
  say "Building"
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DUPSCALED_BASELINES=OFF >"$logs/configure.log" 2>&1 ||
    { tail -n 20 "$logs/configure.log"; skip "what the build needs is missing; see bundle.sh"; }
  cmake --build "$build" --target upscaled_cuda cuda-bench upscaled upscaled-prove upscale upscale-train cuda_device_kernel_tests \
    "${gpu_tests[@]}" \
    >"$logs/build.log" 2>&1 || { tail -n 40 "$logs/build.log"; exit 1; }
  bin=$build/bin test_folder=$build/tests
  ours=()
else
  mkdir "$work/bundle"
  tar -C "$work/bundle" -xf "$bundle"
  bin=$work/bundle/bin test_folder=$work/bundle/tests
  # Only for our programs: others bring their own libraries.
  ours=(env "LD_LIBRARY_PATH=$work/bundle/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}")
  [[ ! -e $work/bundle/shared/golden ]] || shared=$work/bundle/shared
fi
goldens=''
[[ ! -e $shared/golden/index.json ]] || { goldens=1; export UPSCALED_TEST_MODELS=$shared; }

# The card, its state, and the commit that the programs are of.
{
  nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.max.sm,power.draw,power.limit,temperature.gpu --format=csv || true
  cat "$work/bundle/commit" 2>/dev/null || git rev-parse HEAD 2>/dev/null || true
} >"$logs/card.txt"

deadline=$((SECONDS + ${UPSCALED_TEST_SECONDS:-540}))
# Up to this many seconds, or the rest of the time.
left() { echo $((deadline - SECONDS < $1 ? deadline - SECONDS : $1)); }
within() {  # SECONDS COMMAND...
  local seconds
  seconds=$(left "$1")
  ((seconds > 0)) || return 124
  timeout -k 5 "$seconds" "${@:2}"
}

# A test that skips itself where it should run is no success; some may: tests for machines without a driver, with
# goldens or abilities that older devices lack, or with a plan of memory. CUDA has no such plan before it compiles.
may_skip() {  # NAME TEST
  case $1:$2 in
    cuda_driver_tests:CudaDriverTest.WithoutADriverTheCpuServes) ;;
    cuda_golden_tests:*) [[ -z $goldens ]] ;;
    cuda_conformance_tests:Devices/ConformanceTest.MemoryIsPlannedAsItIsTaken/cuda) ;;
    cuda_conformance_tests:Devices/CandidatesTest.*) [[ $capability == 7.* ]] ;;
    fast_conv3x3_wgmma:* | fast_*_ws:*) [[ $capability != 9.0 ]] ;;
    fast_*_mma:*) [[ $capability == 7.* ]] ;;
    *) false ;;
  esac
}
run_test() {  # SECONDS NAME PROGRAM FILTER
  local log=$logs/$2.log status=0 skipped
  within "$1" "${ours[@]}" "$test_folder/$3" --gtest_filter="$4" >"$log" 2>&1 || status=$?
  if ((status)); then
    grep -E '^\[  FAILED|: Failure' -A 4 "$log" | head -n 40 || tail -n 20 "$log"
    fail "$2" "$status"
  fi
  for skipped in $(sed -nE 's/^\[  SKIPPED \] ([A-Za-z][^ ,]*).*/\1/p' "$log" | sort -u); do
    may_skip "$2" "$skipped" || fail "$skipped was skipped"
  done
  tail -n 3 "$log" | grep -E 'PASSED|SKIPPED|FAILED' | sed "s/^/$2: /" || true
  collect
}
# A process for each convolution kernel: what spoils the device's context, or hangs, hides no other.
run_kernels() {
  local tests=cuda_device_kernel_tests names name
  names=$(within 30 "${ours[@]}" "$test_folder/$tests" --gtest_list_tests |
    sed -nE 's,^  [A-Za-z]+/((exact|fast)_[a-z0-9_]+).*,\1,p' | sort -u) || true
  [[ -n $names ]] || fail "the list of convolution kernels' tests"
  for name in $names; do run_test 60 "$name" "$tests" "*/$name"; done
  run_test 60 "$tests" "$tests" '*DeviceKernelTest*'
  [[ $capability != 9.0 ]] || grep -qs 'conv3x3_wgmma: [1-9]' "$logs/fast_conv3x3_wgmma.log" ||
    fail "no layer was computed by conv3x3_wgmma"
}
if [[ -n $tests ]]; then
  say "Tests"
  run_kernels
  for name in "${gpu_tests[@]}"; do
    case $name in
      cuda_conformance_tests | cuda_golden_tests | cuda_pipeline_tests) run_test 90 "$name" "$name" 'Devices/*' ;;
      *) run_test 90 "$name" "$name" '*' ;;
    esac
  done
fi

# Runs the prototype's bench, if the bundle has it (bundle.sh): whether the copy engine and wgmma do as the emulator
# believes, ceilings of products and copies, shapes of layers. One process per case: probes.jsonl.
run_probes() {
  local name status cases end
  [[ -x $bin/ws-bench && $capability == 9.0 ]] ||
    { echo "ws-bench is not in the bundle, or not for this card: left out"; return 0; }
  cases=$(within 20 "${ours[@]}" "$bin/ws-bench" --list) || { fail "ws-bench --list" "$?"; return 0; }
  end=$((SECONDS + 150))
  for name in $(grep '^probe_' <<<"$cases") $(grep -E '_(123x77|33x65)_' <<<"$cases") $(grep -E '^(products|boxes)_' <<<"$cases") \
    $(grep -vE '^(probe|products|boxes)_|_(123x77|33x65)_' <<<"$cases"); do
    ((SECONDS < end)) || { echo "no time left from $name on"; break; }
    status=0
    within 20 "${ours[@]}" "$bin/ws-bench" "$name" >>"$logs/probes.jsonl" 2>>"$logs/probes.log" || status=$?
    ((status == 0)) || fail "$name" "$status"
  done
  echo "$(wc -l <"$logs/probes.jsonl") cases, $(grep -cE '"error"' "$logs/probes.jsonl" || true) with an error"
  collect
}
if [[ -n $kernels ]]; then
  say "Probes and ceilings"
  run_probes
fi

# Kernels that no device of ours has run yet: right or wrong, and how fast next to the shipped ones. proven: those
# that are right.
proven=()
run_prove() {
  local kernel log status verdict
  for kernel in "${new_kernels[@]}"; do
    case $kernel:$capability in
      *:7.*) continue ;;
      half_epilogue:* | folded_gates:* | *_ws:9.0) ;;
      *) continue ;;
    esac
    log=$logs/prove-$kernel.jsonl status=0
    within 60 "${ours[@]}" "$bin/upscaled-prove" cuda:0 "$kernel" >"$log" 2>"$logs/prove-$kernel.log" || status=$?
    verdict=$(tail -n 1 "$log")
    echo "upscaled-prove: ${verdict:-no verdict}"
    case $verdict in
      *'"verdict":"proven"'* | *'"verdict":"slow"'*) proven+=("$kernel") ;;
      *) fail "upscaled-prove $kernel" "$status" ;;
    esac
  done
  collect
}
say "Kernels that prove themselves"
run_prove

# The trainer's derivatives by cuBLAS, which a machine with a driver may lack.
run_train() {
  local log=$logs/train.log status=0
  within 60 "${ours[@]}" "$bin/upscale-train" check --device cuda >"$log" 2>&1 || status=$?
  if ((status)) && grep -q 'libcublas' "$log"; then
    echo "upscale-train: left out: $(tail -n 1 "$log")"
  elif ((status)); then
    grep -vw ok "$log" || true
    fail "upscale-train check" "$status"
  else
    echo "upscale-train check: $(grep -cw ok "$log") steps are right"
  fi
  collect
}
[[ -z $tests ]] || run_train

run_sanitizer() {
  local program tool log status
  program=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null) ||
    { echo "not installed: left out"; return; }
  for tool in memcheck racecheck initcheck; do
    log=$logs/sanitizer-$tool.log status=0
    within 120 "${ours[@]}" "$program" --tool "$tool" --error-exitcode 9 "$test_folder/cuda_device_kernel_tests" \
      --gtest_filter='*WithTheReference*:*PooledSums*' >"$log" 2>&1 || status=$?
    if ((status == 0)); then
      echo "$tool: clean"
    elif ((status == 124 || status == 137)) && ! grep -qsE '^=+ +(Invalid|Error|Uninitialized|Program hit)' "$log"; then
      echo "$tool: nothing found, but not through in time"
    elif grep -qs 'Device not supported\|[Uu]nable to' "$log"; then
      echo "$tool: does not work here"
    else
      tail -n 5 "$log"
      fail "compute-sanitizer $tool" "$status"
    fi
  done
}
if [[ -n $sanitizer ]]; then
  say "compute-sanitizer"
  run_sanitizer
  collect
fi
[[ -n $benches ]] || exit "$failed"

say "Networks by the device's clock"
status=0
within 120 "${ours[@]}" "$bin/cuda-bench" >"$logs/cuda.jsonl" 2>"$logs/cuda.log" || status=$?
((status == 0)) || { tail -n 5 "$logs/cuda.log"; fail cuda-bench "$status"; }
[[ $capability != 9.0 ]] || grep -q '"conv3x3_wgmma"' "$logs/cuda.jsonl" ||
  fail "no network's layer was computed by conv3x3_wgmma"

# Times networks with one proven kernel more each time: cuda-KERNEL.jsonl.
run_proven() {
  local kernel status with='' before=$logs/cuda.jsonl
  for kernel in "${proven[@]}"; do
    with+=${with:+,}$kernel status=0
    say "The same with $with"
    within 60 "${ours[@]}" "$bin/cuda-bench" --precisions fast --proven "$with" \
      >"$logs/cuda-$kernel.jsonl" 2>"$logs/cuda-$kernel.log" || status=$?
    ((status == 0)) || { tail -n 5 "$logs/cuda-$kernel.log"; fail "cuda-bench --proven $with" "$status"; }
    python3 - "$before" "$logs/cuda-$kernel.jsonl" <<'P' || true
import json, sys
before, after = ({row["model"]: row["seconds"] for line in open(name) if (row := json.loads(line)).get("precision") == "fast"
                  and "seconds" in row} for name in sys.argv[1:])
for model in sorted(after.keys() & before.keys()):
    print(f"{model}: {before[model] * 1e3:.3f} ms, {after[model] * 1e3:.3f} ms, {before[model] / after[model]:.2f} times as fast")
P
    before=$logs/cuda-$kernel.jsonl
  done
  collect
}
((${#proven[@]} == 0)) || run_proven

say "PyTorch"
status=0
within 180 python3 tests/gpu/torch_bench.py >"$logs/torch.jsonl" 2>"$logs/torch.log" || status=$?
case $status in
  0) ;;
  77 | 127) cat "$logs/torch.log" ;;  # no PyTorch, no Python
  *) tail -n 5 "$logs/torch.log"; fail "torch_bench.py" "$status" ;;
esac
collect

# Profiles RRDB's five kinds of layers, the same in the shipped kernel, and a layer of 64 channels: ncu-*.txt.
run_ncu() {
  local program kernel model launches with status
  program=$(command -v ncu || ls /usr/local/cuda/bin/ncu 2>/dev/null) || { echo "not installed: left out"; return 0; }
  for kernel in Conv3x3Ws Conv3x3Mma Conv3x3Wgmma; do
    with=() status=0 model=rrdb launches=5
    [[ $kernel != Conv3x3Wgmma ]] || model=srvgg launches=2
    if [[ $kernel == Conv3x3Ws ]]; then
      [[ " ${proven[*]} " == *' conv3x3_ws '* ]] || continue
      with=(--proven conv3x3_ws)
    fi
    within 60 "${ours[@]}" "$program" --clock-control none -k "regex:$kernel" --launch-count "$launches" --section SpeedOfLight \
      --section ComputeWorkloadAnalysis --section MemoryWorkloadAnalysis --section WarpStateStats --section SchedulerStats \
      "$bin/cuda-bench" --precisions fast --models "random:$model" --repetitions 1 "${with[@]}" \
      >"$logs/ncu-$kernel.txt" 2>&1 || status=$?
    # A card that is lent may keep its counters to itself.
    echo "ncu of $kernel: exit status $status"
  done
}
# Runs the tests of the three new kernels for Hopper under each tool.
run_sanitizer_cases() {
  local program tool name log status
  program=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null) ||
    { echo "not installed: left out"; return 0; }
  for tool in memcheck racecheck synccheck; do
    for name in fast_conv3x3_ws fast_thin_ws fast_enlarge_ws; do
      log=$logs/sanitizer-$tool-$name.log status=0
      within 30 "${ours[@]}" "$program" --tool "$tool" --error-exitcode 9 "$test_folder/cuda_device_kernel_tests" \
        --gtest_filter="*WithTheReference*/$name" >"$log" 2>&1 || status=$?
      case $status in
        0) echo "$tool, $name: clean" ;;
        9) tail -n 5 "$log"; fail "compute-sanitizer $tool of $name" ;;
        *) echo "$tool, $name: not through: exit status $status" ;;
      esac
    done
  done
}
if [[ -n $kernels ]]; then
  say "compute-sanitizer"
  run_sanitizer_cases
  say "ncu"
  run_ncu
  collect
  exit "$failed"
fi

# Raw tiles, from one client and from four at a time: service.json.
run_load() {  # ADDRESS
  local clients row rows=()
  for clients in 1 4; do
    row=$(within 20 "${ours[@]}" "$bin/upscale" load --server "$1" --clients "$clients" --seconds 5 --size 960x540 \
      --json 2>>"$logs/load.log") || { fail "upscale load" "$?"; tail -n 3 "$logs/load.log"; continue; }
    rows+=("{\"clients\": $clients, \"load\": $row}")
    [[ $row == *'"errors":{}'* ]] || fail "upscale load: $row"
  done
  (IFS=,; echo "[${rows[*]}]") >"$logs/service.json"
}
serve() {
  local log=$logs/upscaled.log seconds address status=0
  seconds=$(left 120)
  ((seconds > 0)) || { fail upscaled 124; return; }
  # In the foreground, or a signal would reach the server twice.
  timeout --foreground -k 10 "$seconds" "${ours[@]}" "$bin/upscaled" --device cuda --listen 127.0.0.1:0 --http off --admin off \
    --model-repository engine/model/bundled --precision fast --tune full \
    --tune-file "$logs/tune.json" >"$log" 2>&1 &
  server=$!
  for _ in $(seq 300); do
    ! grep -qs ' ready ' "$log" && kill -0 "$server" 2>/dev/null || break
    sleep 0.2
  done
  if grep -qs ' ready ' "$log"; then
    ! grep 'runs in exact' "$log" || fail "upscaled computes in exact"
    address=$(grep -oEm 1 '127\.0\.0\.1:[0-9]+' "$log") && run_load "$address"
  else
    fail "upscaled did not get ready within 60 s"
  fi
  kill -TERM "$server" 2>/dev/null || true
  wait "$server" || status=$?
  server=''
  ((status == 0)) || { tail -n 3 "$log"; fail upscaled "$status"; }
}
say "Through the server"
serve
collect
sed -n '1,/^## /p' "$out/table.md" | sed '/^## /d'
exit "$failed"
