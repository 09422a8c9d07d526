// Layers that move or combine values: kernels/elementwise.cl.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/backends/opencl/context.h"
#include "engine/backends/opencl/layer_kernel.h"
#include "engine/model/network.h"
#include "engine/model/precision.h"

namespace upscaled::opencl {

// Every operation that is neither the input, a convolution nor about whole images.
bool ElementwiseSupports(const Layer& layer);

// The layer must be supported. RESOURCE_EXHAUSTED when the device has no room for its constants.
absl::StatusOr<std::unique_ptr<LayerKernel>> MakeElementwise(Context& context, const Layer& layer,
                                                             Precision precision,
                                                             const LaunchConfig& config);

// A function of kernels/elementwise.cl.
absl::StatusOr<KernelFunction> ElementwiseFunction(Context& context, Precision precision,
                                                   const char* name);

// Work-items for a region of `planes` planes.
WorkSize ItemsOf(const Rect& region, int planes);

// Zeroes a new buffer of `values` values: kernels read a little behind tensors, for results that
// they do not store. `zero` is the function of that name.
absl::Status EnqueueZero(Launcher& launcher, const KernelFunction& zero, const cl::Buffer& buffer,
                         size_t values);

// Zeroes what the tensor holds beyond its layer; `zero` is the function of that name.
absl::Status EnqueueHalo(Launcher& launcher, const KernelFunction& zero, const Tensor& tensor);

}  // namespace upscaled::opencl
