#include "engine/backends/cuda/candidates.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/cuda/kernel_trial.h"
#include "engine/base/check.h"

namespace upscaled::cuda {
namespace {

class Candidates final : public KernelCandidates {
 public:
  Candidates(const std::shared_ptr<Context>& context, const FusedConv& layers, Precision precision)
      : context_(context), layer_(*layers.conv), precision_(precision) {
    const DeviceLimits& limits = context_->device().limits;
    for (const ConvKernel& kernel : ListConvKernels()) {
      if (kernel.supports(layers, precision, limits) &&
          kernel.supports({&layer_, nullptr}, precision, limits)) {
        kernels_.push_back(&kernel);
      }
    }
  }

  std::string device() const override {
    const Device& device = context_->device();
    return absl::StrCat("cuda, ", device.model, ", driver of CUDA ", device.driver / 1000, ".",
                        device.driver % 1000 / 10);
  }
  const Layer& layer() const override { return layer_; }
  Precision precision() const override { return precision_; }
  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const ConvKernel* kernel : kernels_) names.emplace_back(kernel->name);
    return names;
  }
  // Blocks for all multiprocessors several times over.
  Size timed_output() const override { return {640, 360}; }
  std::unique_ptr<LayerTrial> Try(const std::string& name, Size input) const override {
    return std::make_unique<KernelTrial>(context_, layer_, precision_, Find(name), input);
  }

  const ConvKernel& Find(const std::string& name) const {
    const auto found = std::find_if(kernels_.begin(), kernels_.end(),
                                    [&](const ConvKernel* k) { return k->name == name; });
    UPSCALED_CHECK(found != kernels_.end());
    return **found;
  }

 private:
  const std::shared_ptr<Context> context_;
  const Layer& layer_;
  const Precision precision_;
  std::vector<const ConvKernel*> kernels_;
};

}  // namespace

const ConvKernel* PreferredKernel(const std::shared_ptr<Context>& context, const FusedConv& layers,
                                  Precision precision, const ConvKernel* forced,
                                  KernelChooser* chooser) {
  if (forced != nullptr && forced->supports(layers, precision, context->device().limits)) {
    return forced;
  }
  const bool measurable = layers.conv->op == Op::kConv || layers.conv->op == Op::kConvTranspose;
  if (chooser == nullptr || !measurable) return nullptr;
  const Candidates candidates(context, layers, precision);
  return candidates.names().size() < 2 ? nullptr : &candidates.Find(chooser->Choose(candidates));
}

}  // namespace upscaled::cuda
