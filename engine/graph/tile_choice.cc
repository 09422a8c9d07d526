#include "engine/graph/tile_choice.h"

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace upscaled {
namespace {

bool Fits(const TileCosts& costs, Size tile, size_t max_bytes) {
  const absl::StatusOr<size_t> bytes = costs.bytes(tile);
  return bytes.ok() && *bytes <= max_bytes;
}

}  // namespace

bool IsGoodTile(const TileLimits& limits, const TileCosts& costs, Size tile) {
  return costs.macs(tile) <= limits.max_macs && Fits(costs, tile, limits.good_bytes) &&
         (!limits.turned || Fits(costs, {tile.height, tile.width}, limits.good_bytes));
}

absl::StatusOr<Size> ChooseLargestTile(const TileLimits& limits, const TileCosts& costs) {
  ASSIGN_OR_RETURN(const size_t bytes, costs.bytes(limits.smallest));
  if (bytes > limits.max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a tile of ", limits.smallest.width, "x", limits.smallest.height, " pixels needs ",
        bytes >> 20, " MiB of ", limits.memory_name, ", the limit is ", limits.max_bytes >> 20));
  }
  // Larger ones take more.
  const bool may_be_good = bytes <= limits.good_bytes;
  for (const Size tile : limits.largest_first) {
    if (may_be_good && IsGoodTile(limits, costs, tile)) return tile;
    if (!may_be_good && limits.halo_counts && Fits(costs, tile, limits.max_bytes)) return tile;
  }
  return limits.smallest;
}

}  // namespace upscaled
