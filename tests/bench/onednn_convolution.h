// One convolution as oneDNN runs it. Only for builds with it.
#pragma once

#include "absl/status/statusor.h"
#include "engine/base/geometry.h"
#include "engine/model/network.h"
#include "oneapi/dnnl/dnnl.hpp"
#include "tests/bench/onednn.h"

namespace upscaled::bench {

struct OnednnDevice {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};

// {1, channels, height, width}
dnnl::memory::dims OnednnDims(int channels, Size size);

// The divisor of 8-bit samples.
inline constexpr float kOnednnFullScale = 255;

// Copies, converts and multiplies by `scale`.
dnnl::reorder MakeOnednnReorder(OnednnDevice& device, const dnnl::memory::desc& from,
                                const dnnl::memory::desc& to, float scale);

// A convolution, activation fused, between oneDNN's preferred layouts for it.
struct OnednnConvolution {
  dnnl::memory::desc src, dst;
  dnnl::memory weights, bias;
  dnnl::primitive primitive;

  void Run(OnednnDevice& device, const dnnl::memory& from, const dnnl::memory& to) const;
};

// `layer` is a convolution, transposed or not. UNIMPLEMENTED: oneDNN has no such algorithm for it.
absl::StatusOr<OnednnConvolution> MakeOnednnConvolution(OnednnDevice& device, const Layer& layer,
                                                        Size in, OnednnVariant variant);

// Random values.
dnnl::memory MakeOnednnInput(OnednnDevice& device, const OnednnConvolution& convolution);

// The time of one run on random values.
double SecondsOf(OnednnDevice& device, const OnednnConvolution& convolution);

}  // namespace upscaled::bench
