// Timed repetitions, with the FMA peak.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "engine/backends/cpu/kernels/isa.h"

namespace upscaled::bench {

// The median of at least one value; the upper one where two are in the middle.
double Median(std::vector<double> values);

// The value at the rank `q`, from 0 to 1, of at least one.
double Quantile(std::vector<double> values, double q);

// Something to time.
struct Subject {
  std::function<void()> run;
  double operations = 0;  // the direct algorithm's
  int threads = 1;        // that `run` uses
  // Whether to take the process's processor time (hardly changed by busy neighbours) instead of the
  // elapsed time. For one thread without waits.
  bool processor_time = false;
};

struct Measurement {
  double seconds = 0;      // median of the repetitions
  double gflops = 0;       // operations of the direct algorithm / seconds
  double peak_gflops = 0;  // all threads', median of the measurements in between
  double ratio = 0;        // median of gflops / the peak measured around that repetition
  std::vector<double> round_seconds;
};

struct MeasureOptions {
  cpu::Isa isa = cpu::Isa::kPortable;  // whose peak
  double budget_s = 0.5;               // for all subjects together
  int min_rounds = 3;
};

// Runs each subject once to warm up, then all of them in turns, each round beginning with another
// one, until the budget is spent: changes of the machine meanwhile meet all alike. Each repetition
// lies between two measurements of the peak.
std::vector<Measurement> Measure(std::span<const Subject> subjects, const MeasureOptions& options);

// How many times as fast as `other` a subject of the same call was, per operation: the median over
// the rounds.
double Speedup(const Measurement& of, const Measurement& over);

}  // namespace upscaled::bench
