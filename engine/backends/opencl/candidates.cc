#include "engine/backends/opencl/candidates.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/backends/opencl/kernel_candidate.h"
#include "engine/base/check.h"
#include "engine/base/string_view.h"

namespace upscaled::opencl {
namespace {

// How a family of kernels is best launched on a kind of device.
struct KnownDevice {
  std::string Device::*field;  // that contains `text`
  const char* text;
  LaunchConfig blocks;  // of winograd_row4
  LaunchConfig rows;    // of the direct convolutions
};

// The first that matches. Configurations are of the kernel list.
const KnownDevice kKnownDevices[] = {
    // Measured: see README.md.
    {&Device::platform, "Portable Computing Language", {4, {4, 4, 8}}, {8, {8, 1, 4}}},
    // After the makers' guides, not measured: whole warps or waves, along the row.
    {&Device::vendor, "NVIDIA", {4, {32, 1, 1}}, {4, {32, 1, 1}}},
    {&Device::vendor, "Advanced Micro Devices", {4, {8, 8, 1}}, {2, {64, 1, 1}}},
    {&Device::vendor, "Intel", {4, {8, 1, 4}}, {4, {8, 1, 4}}},
};

bool IsKnownGood(const Device& device, const KernelChoice& choice) {
  for (const KnownDevice& known : kKnownDevices) {
    if (!absl::StrContains(device.*known.field, known.text)) continue;
    return choice.config == (choice.info->name == "winograd_row4" ? known.blocks : known.rows);
  }
  return false;
}

std::string NameOf(const KernelChoice& choice) {
  return absl::StrCat(ToAbsl(choice.info->name), ", ", Describe(choice.config));
}

class Candidates final : public KernelCandidates {
 public:
  Candidates(std::shared_ptr<Context> context, const Layer& layer, Precision precision,
             const std::vector<KernelChoice>& choices)
      : context_(std::move(context)), layer_(layer), precision_(precision), choices_(choices) {}

  std::string device() const override {
    const Device& device = context_->device;
    return absl::StrCat("opencl, ", device.model, ", ", device.platform, ", ", device.driver);
  }
  const Layer& layer() const override { return layer_; }
  Precision precision() const override { return precision_; }
  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const KernelChoice& choice : choices_) names.push_back(NameOf(choice));
    return names;
  }
  Size timed_output() const override {
    return context_->device.is_cpu ? Size{168, 48} : Size{480, 272};
  }
  std::unique_ptr<LayerCandidate> Try(const std::string& name, Size input) const override {
    return std::make_unique<KernelCandidate>(context_, layer_, precision_, Find(name), input);
  }

  const KernelChoice& Find(const std::string& name) const {
    const auto found = std::find_if(choices_.begin(), choices_.end(),
                                    [&](const KernelChoice& c) { return NameOf(c) == name; });
    UPSCALED_CHECK(found != choices_.end());
    return *found;
  }

 private:
  const std::shared_ptr<Context> context_;
  const Layer& layer_;
  const Precision precision_;
  const std::vector<KernelChoice>& choices_;
};

}  // namespace

std::vector<KernelChoice> RankChoices(const Device& device, const Layer& layer,
                                      const KernelInfo* forced) {
  const bool is_forced = forced != nullptr && forced->supports(layer);
  std::vector<KernelChoice> choices;
  for (const KernelInfo& info : ListKernels()) {
    if (is_forced ? &info != forced : !info.supports(layer)) continue;
    for (const LaunchConfig& config : info.configs) choices.push_back({&info, config});
  }
  std::stable_partition(choices.begin(), choices.end(),
                        [&](const KernelChoice& choice) { return IsKnownGood(device, choice); });
  if (choices.size() > kMaxChoices) choices.resize(kMaxChoices);
  return choices;
}

absl::StatusOr<KernelChoice> ChooseKernel(std::shared_ptr<Context> context, const Layer& layer,
                                          Precision precision, const KernelInfo* forced,
                                          KernelChooser* chooser) {
  const std::vector<KernelChoice> choices = RankChoices(context->device, layer, forced);
  if (choices.empty()) {
    return absl::UnimplementedError(absl::StrCat("the opencl backend cannot run layer '",
                                                 layer.name, "' (", ToAbsl(OpName(layer.op)), ")"));
  }
  const bool has_choice = (layer.op == Op::kConv || layer.op == Op::kConvTranspose) &&
                          choices.front().info != forced && choices.size() > 1;
  if (chooser == nullptr || !has_choice) return choices.front();
  const Candidates candidates(std::move(context), layer, precision, choices);
  return candidates.Find(chooser->Choose(candidates));
}

}  // namespace upscaled::opencl
