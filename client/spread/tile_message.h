// Tiles of the pipeline as messages, and back.
#pragma once

#include "absl/status/status.h"
#include "engine/backends/backend.h"
#include "engine/image/image.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::client {

// With its place in the image; the colours only.
::upscale::v1::Tile ToTile(const TileTask& task);

// The colours of `dst`. Its alpha stays. INTERNAL, of the server, unless sizes and samples are
// those of `dst`.
absl::Status CopyResult(const ::upscale::v1::Tile& result, MutableImageView dst);

}  // namespace upscaled::client
