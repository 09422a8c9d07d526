# Shared by the scripts of this folder; sourced, not run.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export LC_ALL=C.UTF-8

say() { printf '\n==> %s\n' "$*"; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# Debian 12 and Ubuntu names. Build: what the three programs need. Test: what the tests add.
BUILD_PACKAGES=(ca-certificates cmake g++ ninja-build pkg-config
  libabsl-dev libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
  libjpeg-dev libpng-dev libwebp-dev zlib1g-dev libisal-dev libhwy-dev
  libspdlog-dev libcli11-dev nlohmann-json3-dev libyaml-cpp-dev prometheus-cpp-dev libevent-dev
  opencl-headers ocl-icd-opencl-dev libssl-dev)
TEST_PACKAGES=(libgtest-dev libgmock-dev libbenchmark-dev libdnnl-dev python3 python3-grpcio python3-protobuf
  clang-14 libclang-rt-14-dev clang-format-14 git openssl pocl-opencl-icd oclgrind)

# install_packages NAME...: through apt-get, as root or with sudo; does nothing when all are there.
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
  "${sudo[@]}" apt-get -o DPkg::Lock::Timeout=300 -qq update
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq install \
    --no-install-recommends -y "${missing[@]}" >/dev/null
}

# build PRESET [cmake options...]: configures and builds one preset into build/PRESET.
build() {
  local preset=$1
  shift
  say "Building ($preset)"
  (cd "$ROOT" && cmake --preset "$preset" "$@" >/dev/null && cmake --build --preset "$preset")
}
