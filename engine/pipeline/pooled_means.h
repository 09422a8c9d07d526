// The means that a network's global poolings take over a whole image, gathered tile by tile.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/backends/backend.h"

namespace upscaled {

// Those of one image so far. Until they are complete all tiles of the image run with
// TileTask::means as they are and sums of their own; Finish takes these and gives the next mean.
class PooledMeans {
 public:
  PooledMeans(const Network& network, Size image);

  bool complete() const { return means_.size() == pixels_.size(); }
  std::span<const ChannelMeans> means() const { return means_; }
  // `sums`: of all tiles, in any order.
  void Finish(std::span<const ChannelSums> sums);

 private:
  std::vector<int64_t> pixels_;  // of each pooled layer
  std::vector<ChannelMeans> means_;
};

// All means of an image; `tiles` (their `dst` may be empty) cover it. `run` runs what it is given
// and returns when that is through.
absl::StatusOr<std::vector<ChannelMeans>> GatherMeans(
    const Network& network, std::vector<TileTask> tiles,
    absl::FunctionRef<absl::Status(std::span<const TileTask>)> run);

// What GatherMeans holds at a time for so many tiles, their tasks included.
size_t GatherBytes(const Network& network, int64_t tiles);

}  // namespace upscaled
