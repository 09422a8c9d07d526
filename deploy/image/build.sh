#!/usr/bin/env bash
# Makes the image of a server: with Docker, or without any registry with buildah and this system's own packages.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

usage() {
  cat <<EOF
Usage: deploy/image/build.sh [--tool docker|podman|buildah] [--cuda] [--from FOLDER] [--no-install] [TAG]

  TAG            name of the image (default: upscaled, with CUDA upscaled:cuda)
  --tool NAME    docker and podman build in a base image, which they pull; buildah takes what is built
                 here and the libraries that it was built with. Default: docker where its engine answers,
                 else buildah
  --cuda         with the CUDA backend; docker and podman then need BASE, the name of a base image that
                 has nvcc 12.8 or later, in the environment
  --from FOLDER  for buildah: takes a finished build folder instead of building
  --no-install   do not install packages
EOF
}

tool="" cuda=OFF from="" install=1 tag=""
while (($#)); do
  case $1 in
    --tool) tool=${2:?--tool needs a name}; shift ;;
    --cuda) cuda=ON ;;
    --from) from=$(realpath "${2:?--from needs a folder}"); shift ;;
    --no-install) install=0 ;;
    -h | --help) usage; exit 0 ;;
    -*) usage >&2; exit 2 ;;
    *) tag=$1 ;;
  esac
  shift
done
if [[ -z $tag ]]; then
  [[ $cuda == ON ]] && tag=upscaled:cuda || tag=upscaled
fi
if [[ -z $tool ]]; then
  docker info >/dev/null 2>&1 && tool=docker || tool=buildah
fi

# The time of the last change: equal sources give equal images.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$ROOT" log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH
version=$(sed -n 's/^project(upscaled VERSION \([0-9.]*\).*/\1/p' "$ROOT/CMakeLists.txt")
options=(--file "$ROOT/deploy/image/Dockerfile" --tag "$tag" --label "org.opencontainers.image.version=$version")

case $tool in
  docker | podman)
    [[ $cuda == OFF || -n ${BASE:-} ]] || die "--cuda with $tool needs BASE, the name of a base image with nvcc"
    "$tool" build "${options[@]}" ${BASE:+--build-arg "BASE=$BASE"} --build-arg "CUDA=$cuda" \
      --build-arg "SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH" "$ROOT"
    ;;
  buildah)
    ((install)) && install_packages "${BUILD_PACKAGES[@]}" python3 buildah
    if [[ -z $from ]]; then
      build image -DUPSCALED_CUDA=$cuda
      from=$ROOT/build/image
    fi
    root=$(mktemp -d)
    trap 'rm -rf "$root" "$STEPS"' EXIT
    python3 "$ROOT/deploy/image/make_root.py" "$from" "$root/image"
    # In the place of the stage that Docker builds in.
    buildah build --format oci --timestamp "$SOURCE_DATE_EPOCH" --build-context "build=$root" "${options[@]}" "$ROOT/deploy/image"
    ;;
  *) die "--tool $tool is not docker, podman or buildah" ;;
esac
say "$tag"
