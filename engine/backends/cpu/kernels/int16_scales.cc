#include "engine/backends/cpu/kernels/int16_scales.h"

#include <algorithm>
#include <cmath>

namespace upscaled::cpu {
namespace {

constexpr double kLargest = 32767;
// An input counts for at least this share of the largest: quiet channels exceed their ranges most.
constexpr double kMinShare = 0.35;
// The range of a layer with only zeros.
constexpr double kMinRange = 1e-6;

}  // namespace

void SetInputScales(std::span<const float> ranges, float* scales) {
  const double min_range =
      std::max(*std::max_element(ranges.begin(), ranges.end()) * kMinShare, kMinRange);
  for (size_t i = 0; i < ranges.size(); ++i) {
    scales[i] =
        static_cast<float>(kLargest / (kInt16Margin * std::max<double>(ranges[i], min_range)));
  }
}

double Int16WeightScale(std::span<const double> weights) {
  double sum = 0, largest = 0;
  for (const double w : weights) {
    sum += std::abs(w);
    largest = std::max(largest, std::abs(w));
  }
  if (largest == 0) return 1;
  const double rounding = 0.5 * static_cast<double>(weights.size());
  return std::min((65535 - rounding) / sum, kLargest / largest);
}

}  // namespace upscaled::cpu
