#include "engine/backends/opencl/opencl_backend.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/opencl/context.h"
#include "engine/backends/opencl/device.h"
#include "engine/backends/opencl/kernel_list.h"
#include "engine/backends/opencl/opencl_executable.h"
#include "engine/backends/opencl/opencl_stream.h"
#include "engine/base/status_macros.h"
#include "engine/graph/kernel_choice.h"

namespace upscaled {
namespace {

using opencl::Context;

class OpenClBackend final : public Backend {
 public:
  OpenClBackend(std::shared_ptr<Context> context, const opencl::KernelEntry* forced_kernel,
                std::shared_ptr<KernelChooser> chooser, std::string remark)
      : context_(std::move(context)),
        forced_kernel_(forced_kernel),
        chooser_(std::move(chooser)),
        remark_(std::move(remark)) {}

  std::string_view name() const override { return context_->device.name; }
  std::string description() const override {
    return absl::StrCat(opencl::Describe(context_->device).description, remark_);
  }
  absl::StatusOr<std::shared_ptr<const Executable>> Compile(const Network& network,
                                                            Precision precision) override {
    return opencl::OpenClExecutable::Create(context_, network, precision, forced_kernel_,
                                            chooser_.get());
  }
  std::unique_ptr<Stream> CreateStream() override {
    return std::make_unique<opencl::OpenClStream>(context_);
  }
  // Two on a GPU, so that one's transfers overlap the other's kernels; a CPU has none.
  int StreamCount() const override { return context_->device.is_cpu ? 1 : 2; }

 private:
  const std::shared_ptr<Context> context_;
  const opencl::KernelEntry* const forced_kernel_;  // null: the best for each layer
  const std::shared_ptr<KernelChooser> chooser_;    // null: as RankKernels ranks
  const std::string remark_;
};

}  // namespace

PluginDevices EnumerateOpenClDevices() {
  PluginDevices enumeration;
  for (const opencl::Device& device : opencl::FindDevices(enumeration.notes)) {
    enumeration.devices.push_back(opencl::Describe(device));
  }
  return enumeration;
}

absl::StatusOr<std::unique_ptr<Backend>> CreateOpenClBackend(std::string_view device_name,
                                                             const BackendOptions& options) {
  if (!options.cpu_isa.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cpu_isa '", options.cpu_isa, "' is an option of the cpu backend"));
  }
  ASSIGN_OR_RETURN(const opencl::KernelEntry* kernel,
                   FindForcedKernel("opencl", opencl::ListKernels(), options.kernel));
  ASSIGN_OR_RETURN(const opencl::Device device, opencl::FindDevice(device_name));
  std::optional<opencl::ProgramCache> cache;
  std::string remark;
  if (!options.cache_folder.empty()) {
    absl::StatusOr<opencl::ProgramCache> opened = opencl::ProgramCache::Open(options.cache_folder);
    if (opened.ok()) {
      cache = *std::move(opened);
    } else {
      remark = absl::StrCat(", compiles at every start: ", opened.status().message());
    }
  }
  ASSIGN_OR_RETURN(auto context, Context::Create(device, std::move(cache)));
  return std::make_unique<OpenClBackend>(std::move(context), kernel, options.chooser,
                                         std::move(remark));
}

}  // namespace upscaled
