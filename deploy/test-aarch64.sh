#!/usr/bin/env bash
# Builds the engine for AArch64 with Debian's cross compiler and runs its tests in QEMU's emulator: that it is right, not how
# fast. Takes longer than the rest of the tests, so test.sh does without.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<EOF
Usage: deploy/test-aarch64.sh [--no-install] [-- CTEST OPTIONS]

  --no-install   do not install packages (Debian's, some for arm64)
EOF
}

install=1
while (($#)); do
  case $1 in
    --no-install) install=0 ;;
    -h | --help) usage; exit 0 ;;
    --) shift; break ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done

if ((install)); then step "install packages" install_packages "${AARCH64_PACKAGES[@]}"; fi
build aarch64
run_tests aarch64 "$@"
