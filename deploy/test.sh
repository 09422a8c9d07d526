#!/usr/bin/env bash
# Installs what building and testing need, builds, and runs every test; ends with the slowest steps
# and ctest's summary.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<EOF
Usage: deploy/test.sh [--no-install] [--no-fuzz] [--preset NAME] [-- CTEST OPTIONS]

  --no-install   do not install packages
  --no-fuzz      do not build and run the fuzz targets
  --preset NAME  release (default), debug, clang, asan or tsan
EOF
}

install=1 fuzz=1 preset=release
while (($#)); do
  case $1 in
    --no-install) install=0 ;;
    --no-fuzz) fuzz=0 ;;
    --preset) preset=${2:?--preset needs a name}; shift ;;
    -h | --help) usage; exit 0 ;;
    --) shift; break ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done

if ((install)); then
  packages=("${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}")
  # Where another package has brought the program, Debian's would be in its way.
  for program in node:nodejs npm:npm buildah:buildah podman:podman runc:runc kubectl:kubernetes-client; do
    command -v "${program%:*}" >/dev/null || packages+=("${program#*:}")
  done
  # 120 MB to fetch, for the tests of the page. Ubuntu's package only points to a snap.
  if grep -q '^ID=debian' /etc/os-release && ! command -v chromium >/dev/null; then packages+=(chromium); fi
  step "install packages" install_packages "${packages[@]}"
fi

if ((fuzz)); then
  # A brief run's time is mostly the compiler's: not optimized, no lines in traces, and without the checks of pointers
  # and of types for undefined behaviour. With FUZZ_SECONDS, as the preset says.
  options=()
  [[ -n ${FUZZ_SECONDS:-} ]] || options=("-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O0 -DNDEBUG"
    -DUPSCALED_SANITIZE=fuzzer-no-link,address,array-bounds,bool,builtin,enum,float-cast-overflow,integer-divide-by-zero,nonnull-attribute,return,shift,signed-integer-overflow,unreachable)
  build fuzz "${options[@]}"
  say "Fuzzing briefly"
  step "fuzz" "$ROOT/tests/fuzz/run.sh" "$ROOT/build/fuzz" "${FUZZ_SECONDS:-2}"
fi

build "$preset" -DUPSCALED_TESTS=ON
run_tests "$preset" "$@"
