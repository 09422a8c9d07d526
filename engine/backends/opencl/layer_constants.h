// The constants of a layer, except its weights, as kernels/common.cl takes them.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "engine/backends/opencl/context.h"
#include "engine/backends/opencl/launcher.h"
#include "engine/model/network.h"

namespace upscaled::opencl {

// Copies to the device; RESOURCE_EXHAUSTED when it has no room.
absl::StatusOr<cl::Buffer> UploadFloats(const Context& context, const std::vector<float>& values);

// The RESULT_PARAMETERS of a layer, but for where the result goes.
struct LayerConstants {
  cl::Buffer values;  // per plane: factors, biases, slopes
  size_t bytes = 0;
  cl_int activation = 0;
  cl_float clip_min = 0, clip_max = 0;

  static absl::StatusOr<LayerConstants> Upload(const Context& context, const Layer& layer);
};

// RESULT_PARAMETERS.
struct ResultArguments {
  const Tensor& dst;
  const LayerConstants& constants;

  cl_int SetArguments(cl::Kernel& kernel, cl_uint& index) const;
};

}  // namespace upscaled::opencl
