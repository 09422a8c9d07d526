// Tensors by pixel and channel, for kernels that do not care how they lie in memory.
#pragma once

#include <algorithm>

#include "engine/backends/cpu/kernels/kernel.h"

namespace upscaled::cpu {

// Calls `run(values, first_channel, count)` for each of the runs of channels, adjacent in memory,
// that `pixel` (its plane 0) consists of.
template <typename Float, typename Function>
void ForEachRun(const Tensor& tensor, Float* pixel, Function run) {
  const int step = tensor.blocked() ? kPlaneChannels : tensor.channels;
  for (int first = 0; first < tensor.channels; first += step) {
    run(pixel + tensor.ChannelOffset(first), first, std::min(step, tensor.channels - first));
  }
}

// Channels beyond the last of a blocked tensor have to be finite.
inline void ZeroSpareChannels(const Tensor& tensor, float* pixel) {
  if (!tensor.blocked()) return;
  for (int c = tensor.channels; c % kPlaneChannels != 0; ++c) {
    pixel[tensor.ChannelOffset(c)] = 0;
  }
}

}  // namespace upscaled::cpu
