# Shared by the scripts of this folder; sourced, not run.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export LC_ALL=C.UTF-8

say() { printf '\n==> %s\n' "$*"; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# Seconds and names of the steps so far.
STEPS=$(mktemp)
trap 'rm -f "$STEPS"' EXIT

# step NAME COMMAND...: runs it and notes its time.
step() {
  local name=$1 begin=$EPOCHREALTIME
  shift
  "$@"
  awk -v begin="$begin" -v end="$EPOCHREALTIME" -v name="$name" 'BEGIN { printf "%.1f\t%s\n", end - begin, name }' >>"$STEPS"
}

# print_slowest_steps: the ten of them, and the CPU time of all.
print_slowest_steps() {
  say "The ten slowest steps, in seconds"
  sort -rn "$STEPS" | awk -F'\t' 'NR <= 10 { printf "%8.1f  %s\n", $1, $2 }'
  times >"$STEPS"  # of this shell and, in the second line, of its children
  awk 'NR == 2 { split($1, user, /[ms]/); split($2, sys, /[ms]/)
    printf "CPU time of all steps: %.1f minutes\n", user[1] + sys[1] + (user[2] + sys[2]) / 60 }' "$STEPS"
}

# Debian 12 and Ubuntu names. Build: the needs of the three programs. Release: what packing adds.
# Test: the further needs of the tests.
BUILD_PACKAGES=(ca-certificates cmake g++ ninja-build pkg-config
  libabsl-dev libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
  libjpeg-dev liblcms2-dev libpng-dev libwebp-dev libavif-dev libde265-dev libgif-dev libtiff-dev libjxl-dev zlib1g-dev libzip-dev libisal-dev libhwy-dev
  libspdlog-dev libcli11-dev nlohmann-json3-dev libyaml-cpp-dev prometheus-cpp-dev libboost-dev
  opencl-headers ocl-icd-opencl-dev libssl-dev libcurl4-openssl-dev libseccomp-dev libsqlite3-dev libhiredis-dev libnats-dev libpq-dev)
RELEASE_PACKAGES=(buildah python3)
TEST_PACKAGES=(libgtest-dev libgmock-dev libbenchmark-dev libdnnl-dev libimage-exiftool-perl ffmpeg curl python3 python3-grpcio python3-jsonschema python3-protobuf
  clang-14 libclang-rt-14-dev clang-format-14 lld git openssl fish zsh pocl-opencl-icd oclgrind nginx-light haproxy python3-yaml redis-server nats-server postgresql iproute2 nftables)

# The engine and its tests for AArch64, in addition to those above. Without ISA-L, which no machine
# has for two architectures.
AARCH64_PACKAGES=(ca-certificates cmake ninja-build pkg-config g++-aarch64-linux-gnu qemu-user-static protobuf-compiler python3
  libcli11-dev nlohmann-json3-dev libabsl-dev:arm64 libprotobuf-dev:arm64 libjpeg-dev:arm64 liblcms2-dev:arm64 libpng-dev:arm64 libwebp-dev:arm64
  zlib1g-dev:arm64 libzip-dev:arm64 libhwy-dev:arm64 libsqlite3-dev:arm64 libgtest-dev:arm64 libgmock-dev:arm64)

# install_packages NAME[:ARCHITECTURE]...: through apt-get, as root or with sudo; does nothing when all are there.
install_packages() {
  command -v apt-get >/dev/null || die "needs apt-get (Debian 12 or Ubuntu); on other systems install the equivalents of: $*"
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^ii' || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  local sudo=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || die "run as root, or install sudo, or use --no-install; missing: ${missing[*]}"
    sudo=(sudo)
  fi
  say "Installing ${#missing[@]} packages"
  for package in "${missing[@]}"; do
    [[ $package != *:* ]] || "${sudo[@]}" dpkg --add-architecture "${package#*:}"
  done
  "${sudo[@]}" apt-get -o DPkg::Lock::Timeout=300 -qq update
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq install \
    --no-install-recommends -y "${missing[@]}" >/dev/null
}

# build PRESET [cmake options...] [-- targets...]: configures one preset and builds all of it, or targets, into build/PRESET.
build() {
  local preset=$1 log=$ROOT/build/$1/.ninja_log before=0 options=()
  shift
  while (($#)) && [[ $1 != -- ]]; do
    options+=("$1")
    shift
  done
  say "Building ($preset)"
  (cd "$ROOT" && step "configure $preset" cmake --preset "$preset" \
    -DUPSCALED_UNITY=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=32 "${options[@]}" >/dev/null)
  [[ ! -f $log ]] || before=$(wc -l <"$log")
  (cd "$ROOT" && cmake --build --preset "$preset" ${1:+--target "${@:2}"})
  # Ninja recompacts its log periodically: if it is shorter, all of it is taken.
  (($(wc -l <"$log") >= before)) || before=0
  # Begin and end in milliseconds, a time stamp, an output; a step with several outputs has a line for each.
  tail -n +$((before + 1)) "$log" | awk -F'\t' -v preset="$preset" \
    '!/^#/ && !seen[$1, $2]++ { printf "%.1f\tbuild %s: %s\n", ($2 - $1) / 1000, preset, $4 }' >>"$STEPS"
}

# run_tests PRESET [ctest options...]: runs what was built, says what was slow, ends with ctest's summary and status.
run_tests() {
  local preset=$1 results=$ROOT/build/$1/test.log status=0
  shift
  say "Testing ($preset)"
  cd "$ROOT"
  ctest --preset "$preset" -j "$(nproc)" "$@" | tee "$results" || status=$?
  # As in "  7/9 Test  #3: Name .......   Passed    0.05 sec".
  sed -nE 's/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: ([^ ]+) .* ([0-9.]+) sec.*$/\2\ttest \1/p' "$results" >>"$STEPS"
  print_slowest_steps
  say "Summary ($preset)"
  sed -n '/^[0-9]*% tests passed/,$p' "$results"
  return "$status"
}
