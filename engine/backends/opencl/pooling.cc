#include "engine/backends/opencl/pooling.h"

#include <algorithm>
#include <utility>

#include "engine/backends/opencl/sources.h"

namespace upscaled::opencl {
namespace {

absl::StatusOr<KernelFunction> Function(Context& context, Precision precision, const char* name) {
  ASSIGN_OR_RETURN(cl::Program program,
                   context.programs.Get(kPoolingSource, StorageOption(precision)));
  return KernelFunction{std::move(program), name};
}

class PoolingKernel final : public LayerKernel {
 public:
  PoolingKernel(KernelFunction function, LayerConstants constants)
      : function_(std::move(function)), constants_(std::move(constants)) {}

  absl::Status Enqueue(Launcher& launcher, std::span<const Tensor> src,
                       const Tensor& dst) const override {
    const WorkSize items = {1, 1, static_cast<size_t>(dst.planes())};
    return launcher.Launch(function_, items, {1, 1, 1}, src[0].buffer,
                           ResultArguments{dst, constants_});
  }
  size_t WeightBytes() const override { return constants_.bytes; }
  LaunchConfig config() const override { return {}; }

 private:
  const KernelFunction function_;
  const LayerConstants constants_;
};

}  // namespace

bool PoolingSupports(const Layer& layer) { return layer.op == Op::kGlobalAveragePool; }

absl::StatusOr<std::unique_ptr<LayerKernel>> MakePooling(Context& context, const Layer& layer,
                                                         Precision precision,
                                                         const LaunchConfig& /*config*/) {
  ASSIGN_OR_RETURN(KernelFunction function, Function(context, precision, "load_means"));
  ASSIGN_OR_RETURN(LayerConstants constants, LayerConstants::Upload(context, layer));
  return std::make_unique<PoolingKernel>(std::move(function), std::move(constants));
}

absl::StatusOr<Tensor> UploadMeans(const Context& context, const ChannelMeans& means) {
  const int channels = static_cast<int>(means.size());
  std::vector<float> values = means;
  values.resize(size_t{1} * PlaneCount(channels) * kPlaneChannels);
  const Rect pixel{0, 0, 1, 1};
  Tensor tensor{{}, pixel, pixel, {1, 1}, channels};
  ASSIGN_OR_RETURN(tensor.buffer, UploadFloats(context, values));
  return tensor;
}

absl::StatusOr<ChannelSums> SumUp(Context& context, Launcher& launcher, Precision precision,
                                  const Tensor& tensor, const Rect& part) {
  ChannelSums sums(tensor.channels);
  if (part.empty()) return sums;
  const size_t runs = (part.width + ChannelSums::kExactRun - 1) / ChannelSums::kExactRun;
  const WorkSize items = {runs, static_cast<size_t>(part.height),
                          static_cast<size_t>(tensor.planes())};
  std::vector<cl_long> values(items[0] * items[1] * items[2] * kPlaneChannels);
  const size_t bytes = values.size() * sizeof(cl_long);
  cl_int error = CL_SUCCESS;
  const cl::Buffer buffer(context.handle, CL_MEM_WRITE_ONLY, bytes, nullptr, &error);
  RETURN_IF_ERROR(ToStatus(error, "clCreateBuffer for sums"));
  ASSIGN_OR_RETURN(const KernelFunction function, Function(context, precision, "sum_runs"));
  RETURN_IF_ERROR(
      launcher.Launch(function, items, {1, 8, 1}, tensor, part, cl_int{tensor.planes()}, buffer));
  error = launcher.queue().enqueueReadBuffer(buffer, CL_TRUE, 0, bytes, values.data());
  RETURN_IF_ERROR(ToStatus(error, "clEnqueueReadBuffer"));
  constexpr double kUnit = 1 << 24;  // as kernels/pooling.cl scales
  const size_t plane_values = values.size() / items[2];
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t channel = i / plane_values * kPlaneChannels + i % kPlaneChannels;
    if (channel < sums.channels()) sums.Add(channel, static_cast<double>(values[i]) / kUnit);
  }
  return sums;
}

}  // namespace upscaled::opencl
