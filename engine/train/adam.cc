#include "engine/train/adam.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace upscaled::train {
namespace {

constexpr double kMeanDecay = 0.9, kMeanSquareDecay = 0.99, kEpsilon = 1e-8;
// The decay of the average. At first it averages over the number of steps so far.
constexpr double kAverageDecay = 0.999;
constexpr double kFinalPart = 1e-3;  // of the peak rate
constexpr int64_t kWarmupSteps = 100;
constexpr double kRisingPart = 0.3, kOneCycleRise = 25;  // of one cycle

// From `first` at 0 to `last` at 1.
double AlongCosine(double first, double last, double part) {
  return last + (first - last) * 0.5 * (1 + std::cos(std::numbers::pi * part));
}

}  // namespace

void AdamStep(std::span<const float> gradient, double rate, Learned& learned) {
  const auto step = static_cast<double>(++learned.steps);
  const double unbias = 1 / (1 - std::pow(kMeanDecay, step));
  const double unbias_square = 1 / (1 - std::pow(kMeanSquareDecay, step));
  const double keep = std::min(kAverageDecay, (1 + step) / (10 + step));
  for (size_t i = 0; i < gradient.size(); ++i) {
    const double g = gradient[i];
    const double mean = kMeanDecay * learned.mean[i] + (1 - kMeanDecay) * g;
    const double square =
        kMeanSquareDecay * learned.mean_square[i] + (1 - kMeanSquareDecay) * g * g;
    learned.mean[i] = static_cast<float>(mean);
    learned.mean_square[i] = static_cast<float>(square);
    const double change = rate * mean * unbias / (std::sqrt(square * unbias_square) + kEpsilon);
    learned.parameters[i] = static_cast<float>(learned.parameters[i] - change);
    learned.average[i] =
        static_cast<float>(keep * learned.average[i] + (1 - keep) * learned.parameters[i]);
  }
}

double ClipNorm(std::span<float> gradient, double limit) {
  double squares = 0;
  for (const float g : gradient) squares += double{g} * g;
  const double norm = std::sqrt(squares);
  if (norm > limit) {
    const auto factor = static_cast<float>(limit / norm);
    for (float& g : gradient) g *= factor;
  }
  return norm;
}

const char* ScheduleName(Schedule schedule) {
  return schedule == Schedule::kCosine ? "cosine" : "one-cycle";
}

double RateAt(Schedule schedule, double peak, int64_t step, int64_t total) {
  const double part = std::min(1.0, static_cast<double>(step) / static_cast<double>(total));
  if (schedule == Schedule::kOneCycle) {
    return part < kRisingPart
               ? AlongCosine(peak / kOneCycleRise, peak, part / kRisingPart)
               : AlongCosine(peak, kFinalPart * peak, (part - kRisingPart) / (1 - kRisingPart));
  }
  const auto warmup = static_cast<double>(std::clamp<int64_t>(total / 10, 1, kWarmupSteps));
  const double warm = std::min(1.0, static_cast<double>(step + 1) / warmup);
  return warm * AlongCosine(peak, kFinalPart * peak, part);
}

}  // namespace upscaled::train
