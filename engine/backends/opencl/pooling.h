// The two ends of a global pooling: a tile's part of a layer's sums, and the means that come back.
// kernels/pooling.cl.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/backends/opencl/context.h"
#include "engine/backends/opencl/layer_constants.h"
#include "engine/backends/opencl/layer_kernel.h"
#include "engine/graph/pooling.h"
#include "engine/model/network.h"
#include "engine/model/precision.h"

namespace upscaled::opencl {

bool PoolingSupports(const Layer& layer);

// Its kernel takes the means as its one input: see UploadMeans.
absl::StatusOr<std::unique_ptr<LayerKernel>> MakePooling(Context& context, const Layer& layer,
                                                         Precision precision,
                                                         const LaunchConfig& config);

// The input of a pooling's kernel.
absl::StatusOr<Tensor> UploadMeans(const Context& context, const ChannelMeans& means);

// Adds up `part` of the tensor, which lies in its region, and waits for it.
absl::StatusOr<ChannelSums> SumUp(Context& context, Launcher& launcher, Precision precision,
                                  const Tensor& tensor, const Rect& part);

}  // namespace upscaled::opencl
