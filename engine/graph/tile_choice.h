// The choice of a tile's size by its costs.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "engine/base/geometry.h"

namespace upscaled {

// The larger a tile, the less is computed twice, until it takes long (a cancelled request waits for
// it) or much memory.
struct TileLimits {
  std::span<const Size> largest_first;
  Size smallest;
  double max_macs = 0;
  size_t good_bytes = 0;
  size_t max_bytes = 0;     // more is refused
  std::string memory_name;  // whose bytes: "workspace"
  // Turned images of a test-time augmentation come in turned tiles: these shall be as good.
  bool turned = false;
  // Where even the smallest tile takes more than `good_bytes`, the halo costs more than the tile:
  // then the largest allowed.
  bool halo_counts = false;
};

// The costs of a tile of some size without cuts by the image's edges.
struct TileCosts {
  absl::FunctionRef<double(Size)> macs;
  // Not OK: no tile of this size can be.
  absl::FunctionRef<absl::StatusOr<size_t>(Size)> bytes;
};

// Within max_macs and good_bytes.
bool IsGoodTile(const TileLimits& limits, const TileCosts& costs, Size tile);

// The first good one, or else the smallest. RESOURCE_EXHAUSTED: beyond max_bytes.
absl::StatusOr<Size> ChooseLargestTile(const TileLimits& limits, const TileCosts& costs);

}  // namespace upscaled
