// Where the time of a tile goes, by the device's own clock.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/backends/cuda/cuda_executable.h"
#include "engine/base/geometry.h"

namespace upscaled::cuda {

struct StepTime {
  int layer = -1;      // the last that the step computes
  std::string kernel;  // as StepKernel::name
  double seconds = 0;  // median over the repetitions
};

struct TileProfile {
  std::vector<StepTime> steps;  // in order; the last one packs pixels where no kernel did
  double compute_seconds = 0;   // median of all steps together, as one graph
  double bytes = 0;             // of the device's memory that the tile takes
};

// A whole picture of this size as one tile of 8-bit noise, which the host's copies are no part of.
// Global poolings get any means.
absl::StatusOr<TileProfile> ProfileTile(const CudaExecutable& executable, Size picture,
                                        int repetitions);

}  // namespace upscaled::cuda
