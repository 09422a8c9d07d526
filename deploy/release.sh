#!/usr/bin/env bash
# Makes a release: packages, archive, image, chart, clients, sums and a list of parts, in one folder.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<EOF
Usage: deploy/release.sh [--from FOLDER] [--parts LIST] [--no-image] [--no-install] [FOLDER]

  FOLDER         where the files go; empty or new (default: build/release-VERSION)
  --from FOLDER  takes a finished build folder instead of building
  --parts LIST   only these, with commas between them (default: packages,archive,chart,clients,image,sbom)
  --no-image     without the OCI image
  --no-install   do not install packages

Equal sources on equal packages give equal files: their time is that of the last commit.
EOF
}

from="" parts=,packages,archive,chart,clients,image,sbom, install=1 dest=""
while (($#)); do
  case $1 in
    --from) from=$(realpath "${2:?--from needs a folder}"); shift ;;
    --parts) parts=,${2:?--parts needs a list}, ; shift ;;
    --no-image) parts=${parts/,image,/,} ;;
    --no-install) install=0 ;;
    -h | --help) usage; exit 0 ;;
    -*) usage >&2; exit 2 ;;
    *) dest=$1 ;;
  esac
  shift
done

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$ROOT" log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH
umask 022
SYSTEM_PYTHON=/usr/bin/python3
version=$(sed -n 's/^project(upscaled VERSION \([0-9.]*\).*/\1/p' "$ROOT/CMakeLists.txt")
architecture=$(dpkg --print-architecture)
dest=${dest:-$ROOT/build/release-$version}
mkdir -p "$dest"
dest=$(realpath "$dest")
[[ -z $(ls -A "$dest") ]] || die "$dest is not empty"
work=$(mktemp -d)
trap 'rm -rf "$work" "$STEPS"' EXIT

# pack FOLDER ENTRY...: a tar of entries of the folder that depends on no clock and no user.
pack() {
  tar -C "$1" --sort=name --format=gnu --mode=u=rwX,go=rX --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -c "${@:2}"
}

# archive NAME FOLDER: FOLDER of $work as a tar.gz.
archive() { pack "$work" "$2" | gzip -9n >"$dest/$1"; }

make_packages() {
  (cd "$from" && cpack -B "$work/packages" >"$work/cpack.log" 2>&1) || { cat "$work/cpack.log" >&2; die "cpack failed"; }
  mv "$work"/packages/*.deb "$work"/packages/*.ddeb "$dest"
}

make_archive() {
  local tree=$work/upscaled-$version program
  cmake --install "$from" --prefix "$tree" --strip >/dev/null
  for program in upscaled upscale upscale-full upscale-worker; do
    "$SYSTEM_PYTHON" "$ROOT/deploy/packages/make_pages.py" "$from/bin/$program" "$tree/share"
  done
  archive "upscaled-$version-linux-$architecture.tar.gz" "upscaled-$version"
}

make_chart() {
  cp -r "$ROOT/deploy/kubernetes/chart" "$work/upscaled"
  archive "upscaled-chart-$version.tgz" upscaled
}

make_clients() {
  cp -r "$ROOT/client/js" "$ROOT/client/python" "$work"
  chmod -R u=rwX,go=rX "$work/js"  # npm packs the rights that it finds
  (cd "$work/js" && npm pack --silent --pack-destination "$dest" >/dev/null)
  (cd "$work/python" && PYTHONPATH=build_backend "$SYSTEM_PYTHON" -c 'import sys, upscaled_build; upscaled_build.build_wheel(sys.argv[1])' "$dest")
}

make_image() {
  "$ROOT/deploy/image/build.sh" --tool buildah --no-install --from "$from" "upscaled:$version" >/dev/null
  buildah push --quiet "upscaled:$version" "oci:$work/image:upscaled:$version"
  pack "$work/image" blobs index.json oci-layout >"$dest/upscaled-$version-image-$architecture.tar"
}

make_sbom() {
  [[ -d $work/upscaled-$version ]] || die "--parts: sbom lists the parts of archive"
  "$SYSTEM_PYTHON" "$ROOT/deploy/image/sbom.py" "$work/upscaled-$version" "$version" >"$dest/upscaled-$version.spdx.json"
}

for part in ${parts//,/ }; do
  declare -F "make_$part" >/dev/null || die "--parts: there is no part $part"
done
if ((install)); then
  command -v npm >/dev/null || RELEASE_PACKAGES+=(npm)
  install_packages "${BUILD_PACKAGES[@]}" "${RELEASE_PACKAGES[@]}"
fi
if [[ -z $from ]]; then
  build package
  from=$ROOT/build/package
fi
say "Packing upscaled $version"
for part in packages archive chart clients image sbom; do
  [[ $parts != *,$part,* ]] || step "$part" "make_$part"
done
(cd "$dest" && sha256sum -- * >"$work/SHA256SUMS" && mv "$work/SHA256SUMS" .)
print_slowest_steps
say "$dest"
