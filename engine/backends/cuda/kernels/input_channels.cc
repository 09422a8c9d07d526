#include "engine/backends/cuda/kernels/input_channels.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "engine/base/check.h"
#include "engine/model/half.h"

namespace upscaled::cuda {
namespace {

// The input channel of a layer's weight.
int ChannelOf(const Layer& conv, size_t weight) {
  const size_t taps =
      conv.op == Op::kFullyConnected ? 1 : size_t{1} * conv.kernel_px * conv.kernel_px;
  const size_t pair = weight / taps;
  if (conv.op == Op::kConvTranspose) return static_cast<int>(pair / conv.out_channels);
  const size_t group_in = conv.in_channels / conv.groups;
  const size_t group = pair / group_in / (conv.out_channels / conv.groups);
  return static_cast<int>(group * group_in + pair % group_in);
}

template <typename Stored, typename Read>
std::vector<uint16_t> ReadChannels(const std::vector<uint8_t>& weights, const Read& read) {
  std::vector<uint16_t> channels(weights.size() / sizeof(Stored));
  for (size_t i = 0; i < channels.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, &weights[i * sizeof(stored)], sizeof(stored));
    channels[i] = static_cast<uint16_t>(std::max(read(stored) - 1, 0.0f));
  }
  return channels;
}

}  // namespace

// Packs a layer whose weights are their channels' numbers, from 1: halves hold them exactly.
std::vector<uint16_t> InputChannels(const FusedConv& layers, const Pack& pack) {
  UPSCALED_CHECK(layers.conv->in_channels <= kMaxGatedChannels);
  Layer numbered = *layers.conv;
  for (size_t i = 0; i < numbered.weights.size(); ++i) {
    numbered.weights[i] = static_cast<float>(ChannelOf(numbered, i) + 1);
  }
  const PackedConv packed = pack({&numbered, layers.shuffle});
  if (packed.half_weights) {
    return ReadChannels<uint16_t>(packed.weights,
                                  [](uint16_t bits) { return upscaled::HalfToFloat(bits); });
  }
  return ReadChannels<float>(packed.weights, [](float value) { return value; });
}

}  // namespace upscaled::cuda
