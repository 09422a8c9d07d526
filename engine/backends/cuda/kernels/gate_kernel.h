// Weights by the factors of the channels that they multiply: a gate costs a pass over a layer's
// weights instead of one over its pixels.
#pragma once

#include <cstdint>

#include "engine/backends/cuda/kernels/device.h"
#include "engine/backends/cuda/kernels/gate_params.h"
#include "engine/backends/cuda/kernels/storage.h"

namespace upscaled::cuda {

struct Gate {
  static constexpr int kThreads = 256;
  static constexpr int kMaxBlocks = 256;
};

// `Weight`: of the weights, `Storage`: of the factors; float or Half.
template <typename Weight, typename Storage>
UPSCALED_DEVICE void RunGate(const GateParams& params) {
  const TensorView& factors = params.factors;
  const auto* const weights = static_cast<const Weight*>(params.weights);
  auto* const gated = static_cast<Weight*>(params.gated);
  const int64_t step = int64_t{GridX()} * Gate::kThreads;
  for (int64_t i = int64_t{BlockX()} * Gate::kThreads + ThreadIndex(); i < params.count;
       i += step) {
    const int channel = params.channels[i];
    const float factor =
        ToFloat(PixelAt<Storage>(factors, 0, channel / kPlaneChannels, factors.rect.x,
                                 factors.rect.y)[channel % kPlaneChannels]);
    Assign(gated[i], ToFloat(weights[i]) * factor);
  }
}

}  // namespace upscaled::cuda
