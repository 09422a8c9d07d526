// Convolutions: kernels/conv.cl and kernels/winograd.cl.
#pragma once

#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "engine/backends/opencl/context.h"
#include "engine/backends/opencl/layer_kernel.h"
#include "engine/model/network.h"
#include "engine/model/precision.h"

namespace upscaled::opencl {

// 3x3 with stride 1.
bool WinogradSupports(const Layer& layer);
bool Conv3x3Supports(const Layer& layer);
// Any kernel size and stride; a fully connected layer is a 1x1 convolution of one pixel.
bool ConvSupports(const Layer& layer);
// Grouped ones: each channel from its own, or any, as dense ones whose other weights are zero.
bool DepthwiseSupports(const Layer& layer);
bool GroupedSupports(const Layer& layer);
bool TransposedSupports(const Layer& layer);

// The layer must be supported. RESOURCE_EXHAUSTED when the device has no room for the weights.
using MadeKernel = absl::StatusOr<std::unique_ptr<LayerKernel>>;
MadeKernel MakeWinograd(Context& context, const Layer& layer, Precision precision,
                        const LaunchConfig& config);
MadeKernel MakeConv3x3(Context& context, const Layer& layer, Precision precision,
                       const LaunchConfig& config);
MadeKernel MakeConv(Context& context, const Layer& layer, Precision precision,
                    const LaunchConfig& config);
MadeKernel MakeDepthwise(Context& context, const Layer& layer, Precision precision,
                         const LaunchConfig& config);
MadeKernel MakeGrouped(Context& context, const Layer& layer, Precision precision,
                       const LaunchConfig& config);
MadeKernel MakeTransposed(Context& context, const Layer& layer, Precision precision,
                          const LaunchConfig& config);

}  // namespace upscaled::opencl
