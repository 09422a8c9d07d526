// The scales from values and weights to 16-bit integers, for kernels that add products of these up
// in 32 bits: large enough to lose little, and small enough for no sum to overflow.
#pragma once

#include <span>
#include <vector>

namespace upscaled::cpu {

// The largest magnitudes of a layer's input, in its kernel's order.
using InputRanges = std::vector<float>;

// Headroom: inputs may be this many times larger than the observed ones.
inline constexpr double kInt16Margin = 2;

// Scales of inputs of one sum, by their ranges; as many `scales`.
void SetInputScales(std::span<const float> ranges, float* scales);

// Rounding adds up to half a unit to each of a sum's weights: of more than 2^17 nothing would be
// left for the weights themselves.
inline constexpr int kMaxInt16Products = 1 << 15;

// The factor from the weights of one sum to 16-bit integers that keeps the sum of products within
// 32 bits for all inputs: 2^15 sum |w| < 2^31.
double Int16WeightScale(std::span<const double> weights);

// The place of a channel in a plane of 32, where pairs lie as vpackssdw makes them of two vectors
// of 16.
constexpr int Int16PlaceOf(int channel) {
  return channel % 16 / 4 * 8 + channel / 16 * 4 + channel % 4;
}

}  // namespace upscaled::cpu
