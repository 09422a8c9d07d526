#include "engine/backends/cuda/cuda_backend.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/backends/cuda/context.h"
#include "engine/backends/cuda/cuda_executable.h"
#include "engine/backends/cuda/cuda_stream.h"
#include "engine/backends/cuda/device.h"
#include "engine/backends/cuda/kernels/conv_kernels.h"
#include "engine/base/status_macros.h"

namespace upscaled {
namespace {

using cuda::Context;
using cuda::ConvKernel;

// Returns the names of this device's unproven kernels, for wide layers and last ones, and of the
// epilogue and the gates of kernels for tensor cores.
std::vector<std::string> UnprovenKernels(const cuda::Device& device) {
  const Layer layers[] = {
      {.op = Op::kConv, .out_channels = 64, .in_channels = 64, .kernel_px = 3, .padding_px = 1},
      {.op = Op::kConv, .out_channels = 3, .in_channels = 64, .kernel_px = 3, .padding_px = 1},
      {.op = Op::kConvTranspose,
       .out_channels = 64,
       .in_channels = 64,
       .kernel_px = 2,
       .stride_px = 2}};
  std::vector<std::string> names;
  for (const ConvKernel& kernel : cuda::ListConvKernels()) {
    const bool serves = std::ranges::any_of(layers, [&](const Layer& layer) {
      return kernel.supports({&layer}, Precision::kFast, device.limits);
    });
    if (!kernel.seen && serves) names.emplace_back(kernel.name);
  }
  constexpr int kTensorCores = 80;
  if (device.limits.architecture >= kTensorCores) {
    names.emplace_back(cuda::kHalfEpilogue);
    names.emplace_back(cuda::kFoldedGates);
  }
  return names;
}

class CudaBackend final : public Backend {
 public:
  CudaBackend(std::shared_ptr<Context> context, const ConvKernel* forced_kernel,
              const BackendOptions& options)
      : context_(std::move(context)),
        forced_kernel_(forced_kernel),
        chooser_(options.chooser),
        proven_kernels_(options.proven_kernels) {}

  std::string_view name() const override { return context_->device().name; }
  std::string description() const override {
    const std::string device = cuda::Describe(context_->device()).description;
    return proven_kernels_.empty()
               ? device
               : absl::StrCat(device, ", proven here: ", absl::StrJoin(proven_kernels_, ", "));
  }
  absl::StatusOr<std::shared_ptr<const Executable>> Compile(const Network& network,
                                                            Precision precision) override {
    return cuda::CudaExecutable::Create(context_, network, precision, forced_kernel_,
                                        chooser_.get());
  }
  std::unique_ptr<Stream> CreateStream() override {
    return std::make_unique<cuda::CudaStream>(context_);
  }
  void GiveUp() override { context_->GiveUp("a run does not end"); }
  // While one computes, others copy in and out, and fill the idle multiprocessors of its last
  // blocks.
  int StreamCount() const override { return 3; }

 private:
  const std::shared_ptr<Context> context_;
  const ConvKernel* const forced_kernel_;         // null: the best for each layer
  const std::shared_ptr<KernelChooser> chooser_;  // null: the order of the list
  const std::vector<std::string> proven_kernels_;
};

}  // namespace

PluginDevices EnumerateCudaDevices() {
  PluginDevices enumeration;
  for (const cuda::Device& device : cuda::FindDevices(enumeration.notes)) {
    enumeration.devices.push_back(cuda::Describe(device));
    enumeration.devices.back().unproven_kernels = UnprovenKernels(device);
  }
  return enumeration;
}

absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(std::string_view device_name,
                                                           const BackendOptions& options) {
  if (!options.cpu_isa.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cpu_isa '", options.cpu_isa, "' is an option of the cpu backend"));
  }
  ASSIGN_OR_RETURN(const cuda::ConvKernel* kernel,
                   FindForcedKernel("cuda", cuda::ListConvKernels(), options.kernel));
  ASSIGN_OR_RETURN(const cuda::Device device, cuda::FindDevice(device_name));
  ASSIGN_OR_RETURN(std::shared_ptr<Context> context, Context::Create(device, options));
  return std::make_unique<CudaBackend>(std::move(context), kernel, options);
}

}  // namespace upscaled
