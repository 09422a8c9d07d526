#include "engine/backends/cuda/candidates.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/cuda/kernel_candidate.h"
#include "engine/base/check.h"

namespace upscaled::cuda {
namespace {

class Candidates final : public KernelCandidates {
 public:
  Candidates(const std::shared_ptr<Context>& context, const FusedConv& layers, Precision precision)
      : context_(context), layer_(*layers.conv), precision_(precision) {
    const DeviceLimits& limits = context_->device().limits;
    for (const ConvKernel& kernel : ListConvKernels()) {
      const bool alone = kernel.supports({&layer_, nullptr}, precision, limits);
      if (alone) kernels_.push_back(&kernel);
      measurable_ = measurable_ && alone == kernel.supports(layers, precision, limits);
    }
  }

  // There is a choice, and it is the same with the shuffle behind the convolution, which measured
  // times leave out and tables do not know.
  bool IsMeasurable() const { return measurable_ && kernels_.size() > 1; }

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
  // Blocks for all multiprocessors several times over, of an input that is no larger.
  Size timed_output() const override {
    const int factor = layer_.op == Op::kConv ? layer_.stride_px : 1;
    return {std::max(640 / factor, 1), std::max(360 / factor, 1)};
  }
  // Blocks are up to 32 groups wide and high.
  Size checked_output() const override {
    const int side = 35 * (layer_.op == Op::kConvTranspose ? layer_.stride_px : 1);
    return {side, side};
  }
  std::unique_ptr<LayerCandidate> Try(const std::string& name, Size input) const override {
    return std::make_unique<KernelCandidate>(context_, layer_, precision_, Find(name), input);
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
  bool measurable_ = true;
};

}  // namespace

const ConvKernel* PreferredKernel(const std::shared_ptr<Context>& context, const FusedConv& layers,
                                  Precision precision, const ConvKernel* forced,
                                  KernelChooser* chooser) {
  if (forced != nullptr && forced->supports(layers, precision, context->device().limits)) {
    return forced;
  }
  if (chooser == nullptr || layers.conv->op == Op::kFullyConnected) return nullptr;
  const Candidates candidates(context, layers, precision);
  return candidates.IsMeasurable() ? &candidates.Find(chooser->Choose(candidates)) : nullptr;
}

}  // namespace upscaled::cuda
