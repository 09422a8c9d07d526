#include "engine/backends/opencl/opencl_kernel_set.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/backends/opencl/kernel_candidate.h"
#include "engine/base/string_view.h"
#include "engine/model/grouped_conv.h"

namespace upscaled::opencl {
namespace {

// How a family of kernels is best launched on a class of devices.
struct KnownDevice {
  std::string Device::*field;  // that contains `text`
  const char* text;
  LaunchConfig blocks;  // for winograd_row4
  LaunchConfig rows;    // for the direct convolutions
};

// The first that matches. Configurations are of the kernel list.
const KnownDevice kKnownDevices[] = {
    // Measured: see tests/bench/RESULTS.md.
    {&Device::platform, "Portable Computing Language", {4, {4, 4, 8}}, {8, {8, 1, 4}}},
    // After the makers' guides, not measured: whole warps or waves, along the row.
    {&Device::vendor, "NVIDIA", {4, {32, 1, 1}}, {4, {32, 1, 1}}},
    {&Device::vendor, "Advanced Micro Devices", {4, {8, 8, 1}}, {2, {64, 1, 1}}},
    {&Device::vendor, "Intel", {4, {8, 1, 4}}, {4, {8, 1, 4}}},
};

}  // namespace

std::string OpenClKernelSet::device() const {
  const Device& device = context_->device;
  return absl::StrCat("opencl, ", device.model, ", ", device.platform, ", ", device.driver);
}

std::vector<const KernelInfo*> OpenClKernelSet::List() const {
  std::vector<const KernelInfo*> list;
  for (const KernelEntry& info : ListKernels()) list.push_back(&info);
  return list;
}

bool OpenClKernelSet::Supports(const KernelInfo& kernel, const FusedLayers& layers) const {
  return static_cast<const KernelEntry&>(kernel).supports(*layers.main);
}

size_t OpenClKernelSet::ConfigCount(const KernelInfo& kernel) const {
  return static_cast<const KernelEntry&>(kernel).configs.size();
}

bool OpenClKernelSet::IsKnownGood(const KernelChoice& choice) const {
  for (const KnownDevice& known : kKnownDevices) {
    if (!absl::StrContains(context_->device.*known.field, known.text)) continue;
    const bool blocks = choice.info->name == "winograd_row4";
    return ConfigOf(choice) == (blocks ? known.blocks : known.rows);
  }
  return false;
}

std::string OpenClKernelSet::NameOf(const KernelChoice& choice) const {
  return absl::StrCat(ToAbsl(choice.info->name), ", ", Describe(ConfigOf(choice)));
}

// Padding of channels aside; groups are filled up with zeros.
size_t OpenClKernelSet::PackedBytesBound(const Layer& layer) const {
  const size_t groups = IsDepthwise(layer) ? 1 : layer.groups;
  return 4 * layer.weights.size() * groups * sizeof(float);
}

std::unique_ptr<LayerCandidate> OpenClKernelSet::Try(const Layer& layer, const KernelChoice& choice,
                                                     Size input) const {
  return std::make_unique<KernelCandidate>(context_, layer, precision_, choice, input);
}

Size OpenClKernelSet::TimedOutput(const Layer& /*layer*/) const {
  return context_->device.is_cpu ? Size{168, 48} : Size{480, 272};
}

}  // namespace upscaled::opencl
