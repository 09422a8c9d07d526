#include "tests/bench/measure.h"

#include <algorithm>
#include <ctime>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/bench/fma_peak.h"

namespace upscaled::bench {
namespace {

Measurement Summarize(const Subject& subject, std::vector<double> seconds,
                      const std::vector<double>& peaks) {
  std::vector<double> ratios;
  for (size_t round = 0; round < seconds.size(); ++round) {
    ratios.push_back(subject.operations * 1e-9 / seconds[round] / peaks[round]);
  }
  Measurement result;
  result.seconds = Median(seconds);
  result.gflops = subject.operations * 1e-9 / result.seconds;
  result.peak_gflops = Median(peaks);
  result.ratio = Median(ratios);
  result.round_seconds = std::move(seconds);
  return result;
}

double ProcessorSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return absl::ToDoubleSeconds(absl::DurationFromTimespec(time));
}

double SecondsOf(const Subject& subject) {
  const absl::Time start = absl::Now();
  const double processor_start_s = ProcessorSeconds();
  subject.run();
  return subject.processor_time ? ProcessorSeconds() - processor_start_s
                                : absl::ToDoubleSeconds(absl::Now() - start);
}

}  // namespace

double Median(std::vector<double> values) { return Quantile(std::move(values), 0.5); }

double Quantile(std::vector<double> values, double q) {
  const auto rank = static_cast<ptrdiff_t>(q * static_cast<double>(values.size() - 1) + 0.5);
  std::nth_element(values.begin(), values.begin() + rank, values.end());
  return values[rank];
}

std::vector<Measurement> Measure(std::span<const Subject> subjects, const MeasureOptions& options) {
  for (const Subject& subject : subjects) subject.run();
  const size_t count = subjects.size();
  std::vector<std::vector<double>> seconds(count), peaks(count);
  const absl::Time end = absl::Now() + absl::Seconds(options.budget_s);
  double peak_before = FmaPeakGflops(options.isa);
  for (int round = 0; round < options.min_rounds || absl::Now() < end; ++round) {
    for (size_t i = 0; i < count; ++i) {
      const size_t turn = (round + i) % count;
      seconds[turn].push_back(SecondsOf(subjects[turn]));
      const double peak_after = FmaPeakGflops(options.isa);
      peaks[turn].push_back(subjects[turn].threads * (peak_before + peak_after) / 2);
      peak_before = peak_after;
    }
  }
  std::vector<Measurement> results;
  for (size_t i = 0; i < count; ++i) {
    results.push_back(Summarize(subjects[i], std::move(seconds[i]), peaks[i]));
  }
  return results;
}

double Speedup(const Measurement& of, const Measurement& over) {
  // Operations per second of both, in the same round.
  const double operations = of.gflops * of.seconds / (over.gflops * over.seconds);
  std::vector<double> quotients;
  for (size_t round = 0; round < of.round_seconds.size(); ++round) {
    quotients.push_back(operations * over.round_seconds[round] / of.round_seconds[round]);
  }
  return Median(std::move(quotients));
}

}  // namespace upscaled::bench
