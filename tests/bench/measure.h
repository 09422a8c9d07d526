// Timed repetitions beside the FMA peak.
#pragma once

#include <functional>

#include "engine/backends/cpu/kernels/isa.h"

namespace upscaled::bench {

struct Measurement {
  double seconds = 0;      // median of the repetitions
  double gflops = 0;       // operations of the direct algorithm / seconds
  double peak_gflops = 0;  // of all threads, median of the measurements in between
  double ratio = 0;        // median of gflops / the peak measured around that repetition
};

struct MeasureOptions {
  cpu::Isa isa = cpu::Isa::kPortable;  // whose peak
  int threads = 1;                     // that `run` uses
  double budget_s = 0.5;
  int min_repetitions = 3;
};

// Runs once to warm up, then until the budget is spent. Each repetition lies between two
// measurements of the peak.
Measurement Measure(const std::function<void()>& run, double operations,
                    const MeasureOptions& options);

}  // namespace upscaled::bench
