#include "engine/autotune/measure_layer.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "engine/autotune/interleaved_benchmark.h"
#include "engine/backends/reference/layers.h"
#include "engine/model/multiply_adds.h"
#include "engine/model/shapes.h"

namespace upscaled {
namespace {

// Relative to the largest value: far above rounding, far below a mistake.
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

// In the shipped order, with their best times.
std::vector<TimedCandidate> TimeAll(const KernelCandidates& candidates, absl::Duration budget,
                                    const Clock& clock) {
  const Size input = InputFor(candidates.layer(), candidates.timed_output());
  std::vector<TimedCandidate> timed;
  for (const std::string& name : candidates.names()) {
    const std::shared_ptr<LayerCandidate> candidate = candidates.Try(name, input);
    timed.push_back({name, [candidate, &clock] {
                       const absl::Time start = clock.Now();
                       candidate->Run();
                       const absl::Duration elapsed = clock.Now() - start;
                       return candidate->LastRunTime().value_or(elapsed);
                     }});
  }
  RunInterleaved(timed, budget, clock);
  return timed;
}

enum class Answer : uint8_t { kRight, kWrong, kNone };

// The reference's result for random values.
class Check {
 public:
  explicit Check(const KernelCandidates& candidates)
      : candidates_(candidates),
        in_(InputFor(candidates.layer(), candidates.checked_output())),
        input_({0, 0, in_.width, in_.height}, candidates.layer().in_channels) {
    const Layer& layer = candidates.layer();
    const Size out = OutputSize(layer, in_);
    std::mt19937 random(1);
    std::uniform_real_distribution<float> value(-1.0f, 1.0f);
    for (float& v : input_.values) v = value(random);
    reference::Tensor expected({0, 0, out.width, out.height}, layer.out_channels);
    const reference::Tensor* const inputs[] = {&input_};
    reference::ComputeLayer(layer, inputs, expected);
    expected_ = std::move(expected.values);
  }

  Answer Of(const std::string& name) const {
    const std::vector<float> actual = candidates_.Try(name, in_)->Compute(input_.values);
    if (actual.empty()) return Answer::kNone;
    if (actual.size() != expected_.size()) return Answer::kWrong;
    double largest = 0, error = 0;
    for (size_t i = 0; i < actual.size(); ++i) {
      if (!std::isfinite(actual[i])) return Answer::kWrong;
      largest = std::max(largest, std::abs(double{expected_[i]}));
      error = std::max(error, std::abs(double{actual[i]} - expected_[i]));
    }
    const bool right = error <= Tolerance(candidates_.precision()) * largest;
    return right ? Answer::kRight : Answer::kWrong;
  }

 private:
  const KernelCandidates& candidates_;
  const Size in_;
  reference::Tensor input_;
  std::vector<float> expected_;
};

}  // namespace

LayerMeasurement MeasureLayer(const KernelCandidates& candidates, absl::Duration budget,
                              const Clock& clock) {
  LayerMeasurement result;
  const Layer& layer = candidates.layer();
  const Size output = OutputSize(layer, InputFor(layer, candidates.timed_output()));
  const double operations = 2 * MultiplyAdds(layer, static_cast<double>(output.Area()));
  const Check check(candidates);
  std::optional<TimedCandidate> winner;
  for (const TimedCandidate& candidate : TimeAll(candidates, budget, clock)) {
    const bool better = !winner || candidate.best * kClearlyFaster < winner->best;
    Answer answer = Answer::kRight;  // so far as it matters
    if (candidate.best == absl::InfiniteDuration()) {
      answer = Answer::kNone;
    } else if (better) {
      answer = check.Of(candidate.name);
    }
    if (answer != Answer::kRight) {
      (answer == Answer::kWrong ? result.wrong : result.refused).push_back(candidate.name);
      continue;
    }
    result.entry.gflops[candidate.name] = operations * 1e-9 / absl::ToDoubleSeconds(candidate.best);
    if (better) winner = candidate;
  }
  // None right: the choice without tuning.
  result.entry.choice = winner ? winner->name : candidates.names().front();
  return result;
}

}  // namespace upscaled
