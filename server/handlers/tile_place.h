// A tile of UpscaleTiles: its pixels, its image, and the part to compute.
#pragma once

#include "absl/status/statusor.h"
#include "engine/image/image.h"
#include "engine/pipeline/image_run.h"
#include "server/admission/limits.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::server {

// UNIMPLEMENTED: the network sees the whole image, so tiles can have no place.
absl::Status CheckLocal(const Executable& executable);

struct PlacedTile {
  ImagePart part;  // of an image of its own: all of it
  ImageSpec source;
  ImageSpec result;
};

// INVALID_ARGUMENT: the tile's numbers or bytes contradict each other or pass a limit, or it lacks
// pixels its result depends on. CheckLocal's errors, too, for a tile with a place.
absl::StatusOr<PlacedTile> PlaceTile(const upscale::v1::Tile& tile, const Limits& limits,
                                     const Executable& executable);

}  // namespace upscaled::server
