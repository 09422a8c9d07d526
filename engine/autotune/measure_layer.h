// Finds the fastest right kernel for a layer.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "engine/autotune/tuning_table.h"
#include "engine/base/clock.h"
#include "engine/graph/kernel_choice.h"

namespace upscaled {

struct LayerMeasurement {
  TuningEntry entry;               // `gflops` in operations of the direct algorithm
  std::vector<std::string> wrong;  // kernels whose values differ from the reference's
  // Kernels that did not run: the device refused them, or failed, or had no memory for the
  // candidate.
  std::vector<std::string> refused;
};

// Runs the candidates in turns for about `budget` and takes the fastest; it must be clearly faster
// to displace the shipped order. A candidate with other results than the reference backend on
// random values is not taken, however fast.
LayerMeasurement MeasureLayer(const KernelCandidates& candidates, absl::Duration budget,
                              const Clock& clock);

}  // namespace upscaled
