// Where the time of a tile goes, by the device's own clock.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/backends/cuda/cuda_executable.h"
#include "engine/backends/cuda/tile_place.h"

namespace upscaled::cuda {

struct StepTime {
  int layer = -1;      // the step's convolution or else its only layer; what is fused adds little
  std::string kernel;  // as StepKernel::name
  double seconds = 0;  // median over the repetitions
};

struct TileProfile {
  std::vector<StepTime> steps;  // in order; the last one packs pixels where no kernel did
  double compute_seconds = 0;   // median of all steps together, as one graph
  double bytes = 0;             // the device's memory that the tile takes
  // For each global pooling, whether the step computing its input adds it up, too; the times hold
  // no other sums.
  std::vector<bool> sums_added;
};

// The tile with 8-bit noise as its source, without the host's copies. Global poolings get any
// means. Warms up for 300 ms first.
absl::StatusOr<TileProfile> ProfileTile(const CudaExecutable& executable, const TilePlace& tile,
                                        int repetitions);

}  // namespace upscaled::cuda
