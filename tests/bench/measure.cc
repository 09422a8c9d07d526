#include "tests/bench/measure.h"

#include <algorithm>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/bench/fma_peak.h"

namespace upscaled::bench {
namespace {

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

}  // namespace

Measurement Measure(const std::function<void()>& run, double operations,
                    const MeasureOptions& options) {
  run();
  std::vector<double> seconds, peaks, ratios;
  const absl::Time begin = absl::Now();
  double peak_before = options.threads * FmaPeakGflops(options.isa);
  while (static_cast<int>(seconds.size()) < options.min_repetitions ||
         absl::Now() - begin < absl::Seconds(options.budget_s)) {
    const absl::Time start = absl::Now();
    run();
    seconds.push_back(absl::ToDoubleSeconds(absl::Now() - start));
    const double peak_after = options.threads * FmaPeakGflops(options.isa);
    peaks.push_back((peak_before + peak_after) / 2);
    ratios.push_back(operations * 1e-9 / seconds.back() / peaks.back());
    peak_before = peak_after;
  }
  Measurement result;
  result.seconds = Median(seconds);
  result.gflops = operations * 1e-9 / result.seconds;
  result.peak_gflops = Median(peaks);
  result.ratio = Median(ratios);
  return result;
}

}  // namespace upscaled::bench
