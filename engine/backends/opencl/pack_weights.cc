#include "engine/backends/opencl/pack_weights.h"

#include <array>
#include <cstddef>

#include "engine/backends/opencl/tensor.h"
#include "engine/model/grouped_conv.h"

namespace upscaled::opencl {
namespace {

// Calls visit(first weight of the pair's kernel, out plane and lane, in plane and lane) for each
// pair of channels.
template <typename Visit>
void ForEachPair(const Layer& layer, const Visit& visit) {
  const size_t taps = size_t{1} * layer.kernel_px * layer.kernel_px;
  for (int out = 0; out < layer.out_channels; ++out) {
    for (int in = 0; in < layer.in_channels; ++in) {
      const size_t pair = layer.op == Op::kConvTranspose ? size_t{1} * in * layer.out_channels + out
                                                         : size_t{1} * out * layer.in_channels + in;
      visit(&layer.weights[pair * taps], out / kPlaneChannels, out % kPlaneChannels,
            in / kPlaneChannels, in % kPlaneChannels);
    }
  }
}

size_t PlanePairs(const Layer& layer) {
  return size_t{1} * PlaneCount(layer.out_channels) * PlaneCount(layer.in_channels);
}

// G of F(4, 3) with the points 0, 1, -1, 2, -2 and infinity, in double: one rounding a value.
std::array<double, 6> TransformRow(const float* w) {
  const double a = w[0], b = w[1], c = w[2];
  return {
      a / 4, -(a + b + c) / 6, -(a - b + c) / 6, a / 24 + b / 12 + c / 6, a / 24 - b / 12 + c / 6,
      c};
}

}  // namespace

std::vector<float> PackDirect(const Layer& layer) {
  const int taps = layer.kernel_px * layer.kernel_px;
  const int in_planes = PlaneCount(layer.in_channels);
  std::vector<float> packed(PlanePairs(layer) * taps * kPlaneChannels * kPlaneChannels);
  ForEachPair(layer, [&](const float* weights, int out_plane, int out, int in_plane, int in) {
    for (int tap = 0; tap < taps; ++tap) {
      const size_t row = (size_t{1} * out_plane * in_planes + in_plane) * taps + tap;
      packed[(row * kPlaneChannels + in) * kPlaneChannels + out] = weights[tap];
    }
  });
  return packed;
}

std::vector<float> PackGrouped(const Layer& layer) { return PackDirect(AsDenseConv(layer)); }

std::vector<float> PackDepthwise(const Layer& layer) {
  const int taps = layer.kernel_px * layer.kernel_px;
  std::vector<float> packed(size_t{1} * PlaneCount(layer.out_channels) * taps * kPlaneChannels);
  for (int c = 0; c < layer.out_channels; ++c) {
    for (int tap = 0; tap < taps; ++tap) {
      const size_t vector = size_t{1} * (c / kPlaneChannels) * taps + tap;
      packed[vector * kPlaneChannels + c % kPlaneChannels] =
          layer.weights[size_t{1} * c * taps + tap];
    }
  }
  return packed;
}

std::vector<float> PackWinogradRow4(const Layer& layer) {
  constexpr int kRows = 3, kPoints = 6;
  const int in_planes = PlaneCount(layer.in_channels);
  std::vector<float> packed(PlanePairs(layer) * kRows * kPoints * kPlaneChannels * kPlaneChannels);
  ForEachPair(layer, [&](const float* weights, int out_plane, int out, int in_plane, int in) {
    for (int ky = 0; ky < kRows; ++ky) {
      const std::array<double, 6> points = TransformRow(weights + 3 * ky);
      const size_t row = (size_t{1} * out_plane * in_planes + in_plane) * kRows + ky;
      for (int point = 0; point < kPoints; ++point) {
        packed[((row * kPlaneChannels + in) * kPoints + point) * kPlaneChannels + out] =
            static_cast<float>(points[point]);
      }
    }
  });
  return packed;
}

}  // namespace upscaled::opencl
