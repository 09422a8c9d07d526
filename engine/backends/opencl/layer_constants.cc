#include "engine/backends/opencl/layer_constants.h"

#include <algorithm>

namespace upscaled::opencl {
namespace {

// As kernels/common.cl numbers them.
cl_int ActivationNumber(Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return 0;
    case Activation::kRelu:
      return 1;
    case Activation::kLeakyRelu:
    case Activation::kPRelu:
      return 2;
    case Activation::kSigmoid:
      return 3;
    case Activation::kClip:
      return 4;
    case Activation::kSilu:
      return 5;
    case Activation::kMish:
      return 6;
    case Activation::kGelu:
      return 7;
    case Activation::kGeluTanh:
      return 8;
    case Activation::kSoftplus:
      return 9;
  }
  return 0;
}

// One of the vectors, or its only value, or nothing, at channel `c`.
float ValueAt(const std::vector<float>& values, int c) {
  if (values.size() == 1) return values[0];
  return static_cast<size_t>(c) < values.size() ? values[c] : 0.0f;
}

}  // namespace

absl::StatusOr<cl::Buffer> UploadFloats(const Context& context, const std::vector<float>& values) {
  cl_int error = CL_SUCCESS;
  cl::Buffer buffer(context.handle, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR,
                    values.size() * sizeof(float), const_cast<float*>(values.data()), &error);
  RETURN_IF_ERROR(ToStatus(error, "clCreateBuffer for weights"));
  return buffer;
}

absl::StatusOr<LayerConstants> LayerConstants::Upload(const Context& context, const Layer& layer) {
  const std::vector<float> no_factors;
  const bool scales =
      layer.op == Op::kAffine || layer.op == Op::kPixelNorm || layer.op == Op::kGroupNorm;
  const auto& factors = scales ? layer.weights : no_factors;
  std::vector<float> values;
  for (int plane = 0; plane < PlaneCount(layer.out_channels); ++plane) {
    for (const std::vector<float>* kind : {&factors, &layer.bias, &layer.slope}) {
      for (int lane = 0; lane < kPlaneChannels; ++lane) {
        values.push_back(ValueAt(*kind, plane * kPlaneChannels + lane));
      }
    }
  }
  LayerConstants constants;
  ASSIGN_OR_RETURN(constants.values, UploadFloats(context, values));
  constants.bytes = values.size() * sizeof(float);
  constants.activation = ActivationNumber(layer.activation);
  constants.clip_min = layer.clip_min;
  constants.clip_max = layer.clip_max;
  return constants;
}

cl_int ResultArguments::SetArguments(cl::Kernel& kernel, cl_uint& index) const {
  const cl_int errors[] = {
      kernel.setArg(index++, dst.buffer),         kernel.setArg(index++, ToInt4(dst.rect)),
      kernel.setArg(index++, ToInt4(dst.region)), kernel.setArg(index++, dst.planes()),
      kernel.setArg(index++, constants.values),   kernel.setArg(index++, constants.activation),
      kernel.setArg(index++, constants.clip_min), kernel.setArg(index++, constants.clip_max)};
  const auto* const failed =
      std::find_if(std::begin(errors), std::end(errors), [](cl_int e) { return e != CL_SUCCESS; });
  return failed == std::end(errors) ? CL_SUCCESS : *failed;
}

}  // namespace upscaled::opencl
