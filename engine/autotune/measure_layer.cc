#include "engine/autotune/measure_layer.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>

#include "engine/backends/reference/layers.h"
#include "engine/model/shapes.h"

namespace upscaled {
namespace {

// Times of one kernel may differ by this much for no reason.
constexpr double kClearlyFaster = 1.03;
// Not worth more rounds, after those that all may run: one may have been interrupted.
constexpr double kHopeless = 2;
constexpr int kFairRounds = 2;
// A block of any Winograd kernel and the beginning of the next.
constexpr Size kCheckedOutput{7, 7};

// Relative to the largest value: far above what rounding does, far below what a mistake does.
double Tolerance(Precision precision) { return precision == Precision::kExact ? 1e-3 : 5e-2; }

// For about this output of a convolution.
Size InputFor(const Layer& layer, Size output) {
  const bool transposed = layer.op == Op::kConvTranspose;
  const auto side = [&](int out) {
    return transposed ? out / layer.stride_px + layer.kernel_px
                      : (out - 1) * layer.stride_px + layer.kernel_px;
  };
  return {side(output.width), side(output.height)};
}

double Operations(const Layer& layer, Size output) {
  const double taps = layer.op == Op::kConvTranspose
                          ? std::pow(double{1} * layer.kernel_px / layer.stride_px, 2)
                          : double{1} * layer.kernel_px * layer.kernel_px;
  return 2 * taps * layer.in_channels * layer.out_channels * static_cast<double>(output.Area());
}

struct Contender {
  std::string name;
  std::unique_ptr<LayerTrial> trial;
  absl::Duration best = absl::InfiniteDuration();
};

void RunOnce(Contender& contender, const Clock& clock) {
  const absl::Time start = clock.Now();
  contender.trial->Run();
  const absl::Duration elapsed = clock.Now() - start;
  contender.best = std::min(contender.best, contender.trial->LastRunTime().value_or(elapsed));
}

// In the shipped order, with their best times.
std::vector<Contender> TimeAll(const KernelCandidates& candidates, absl::Duration budget,
                               const Clock& clock) {
  const Size input = InputFor(candidates.layer(), candidates.timed_output());
  std::vector<Contender> contenders;
  for (const std::string& name : candidates.names()) {
    contenders.push_back({name, candidates.Try(name, input)});
  }
  const absl::Time end = clock.Now() + budget;
  absl::Duration fastest = absl::InfiniteDuration();
  for (int round = 0; round < kFairRounds || clock.Now() < end; ++round) {
    for (Contender& contender : contenders) {
      if (round >= kFairRounds && contender.best > kHopeless * fastest) continue;
      RunOnce(contender, clock);
      fastest = std::min(fastest, contender.best);
    }
  }
  return contenders;
}

enum class Answer : uint8_t { kRight, kWrong, kNone };

Answer CompareWithReference(const KernelCandidates& candidates, const std::string& name) {
  const Layer& layer = candidates.layer();
  const Size in = InputFor(layer, kCheckedOutput), out = OutputSize(layer, in);
  reference::Tensor input({0, 0, in.width, in.height}, layer.in_channels);
  reference::Tensor expected({0, 0, out.width, out.height}, layer.out_channels);
  std::mt19937 random(1);
  std::uniform_real_distribution<float> value(-1.0f, 1.0f);
  for (float& v : input.values) v = value(random);
  const reference::Tensor* const inputs[] = {&input};
  reference::ComputeLayer(layer, inputs, expected);
  const std::vector<float> actual = candidates.Try(name, in)->Compute(input.values);
  if (actual.empty()) return Answer::kNone;
  if (actual.size() != expected.values.size()) return Answer::kWrong;
  double largest = 0, error = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (!std::isfinite(actual[i])) return Answer::kWrong;
    largest = std::max(largest, std::abs(double{expected.values[i]}));
    error = std::max(error, std::abs(double{actual[i]} - expected.values[i]));
  }
  return error <= Tolerance(candidates.precision()) * largest ? Answer::kRight : Answer::kWrong;
}

}  // namespace

LayerMeasurement MeasureLayer(const KernelCandidates& candidates, absl::Duration budget,
                              const Clock& clock) {
  LayerMeasurement result;
  const Layer& layer = candidates.layer();
  const double operations =
      Operations(layer, OutputSize(layer, InputFor(layer, candidates.timed_output())));
  std::optional<Contender> winner;
  for (Contender& contender : TimeAll(candidates, budget, clock)) {
    const bool better = !winner || contender.best * kClearlyFaster < winner->best;
    Answer answer = Answer::kRight;  // so far as it matters
    if (contender.best == absl::InfiniteDuration()) {
      answer = Answer::kNone;
    } else if (better) {
      answer = CompareWithReference(candidates, contender.name);
    }
    if (answer != Answer::kRight) {
      (answer == Answer::kWrong ? result.wrong : result.refused).push_back(contender.name);
      continue;
    }
    result.entry.gflops[contender.name] = operations * 1e-9 / absl::ToDoubleSeconds(contender.best);
    if (better) winner = std::move(contender);
  }
  // None right: what is computed without tuning.
  result.entry.kernel = winner ? winner->name : candidates.names().front();
  return result;
}

}  // namespace upscaled
