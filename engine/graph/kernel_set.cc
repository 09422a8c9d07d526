#include "engine/graph/kernel_set.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"
#include "engine/model/op.h"

namespace upscaled {
namespace {

// Whether the kernel computes just these layers; it may add a layer from outside.
bool Takes(const KernelSet& kernels, const KernelInfo& kernel, const FusedLayers& layers) {
  const bool shuffles = layers.shuffle == nullptr || (kernel.fuses & kFuseShuffle) != 0;
  const bool reads_image = (kernel.fuses & kFuseImage) != 0;
  // Halves are too coarse for the squares' means, because the values' means are subtracted from
  // them; and for scores, because the softmax magnifies them.
  const bool too_coarse = kernels.precision() == Precision::kFast &&
                          (layers.main->op == Op::kGroupNorm || IsExactOnly(*layers.main));
  return !too_coarse && shuffles && reads_image == layers.reads_image &&
         kernels.Supports(kernel, layers);
}

class Candidates final : public KernelCandidates {
 public:
  Candidates(const KernelSet& kernels, const Layer& layer, std::vector<KernelChoice> choices)
      : kernels_(kernels), layer_(layer), choices_(std::move(choices)) {}

  std::string device() const override { return kernels_.device(); }
  const Layer& layer() const override { return layer_; }
  Precision precision() const override { return kernels_.precision(); }
  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const KernelChoice& choice : choices_) names.push_back(kernels_.NameOf(choice));
    return names;
  }
  Size timed_output() const override { return kernels_.TimedOutput(layer_); }
  Size checked_output() const override { return kernels_.CheckedOutput(layer_); }
  std::unique_ptr<LayerCandidate> Try(const std::string& name, Size input) const override {
    return kernels_.Try(layer_, Find(name), input);
  }

  const KernelChoice& Find(const std::string& name) const {
    const auto found = std::find_if(choices_.begin(), choices_.end(), [&](const KernelChoice& c) {
      return kernels_.NameOf(c) == name;
    });
    UPSCALED_CHECK(found != choices_.end());
    return *found;
  }

 private:
  const KernelSet& kernels_;
  const Layer& layer_;
  const std::vector<KernelChoice> choices_;
};

// Whether there is a choice, and the same one for the convolution without its fused layers:
// measured times and tables leave those out.
bool IsMeasurable(const KernelSet& kernels, const FusedLayers& layers,
                  const std::vector<KernelChoice>& choices) {
  const bool convolves = layers.main->op == Op::kConv || layers.main->op == Op::kConvTranspose;
  return convolves && !layers.reads_image && choices.size() > 1 &&
         (layers.shuffle == nullptr || RankKernels(kernels, {layers.main}) == choices);
}

}  // namespace

std::vector<KernelChoice> RankKernels(const KernelSet& kernels, const FusedLayers& layers,
                                      const KernelInfo* forced) {
  const bool is_forced = forced != nullptr && Takes(kernels, *forced, layers);
  std::vector<KernelChoice> choices;
  const auto add = [&](const KernelInfo* info) {
    for (size_t i = 0; i < kernels.ConfigCount(*info); ++i) choices.push_back({info, i});
  };
  if (is_forced) {
    add(forced);
  } else {
    for (const KernelInfo* info : kernels.List()) {
      if (!info->baseline && Takes(kernels, *info, layers)) add(info);
    }
  }
  std::stable_partition(choices.begin(), choices.end(),
                        [&](const KernelChoice& choice) { return kernels.IsKnownGood(choice); });
  if (choices.size() > kMaxChoices) choices.resize(kMaxChoices);
  return choices;
}

absl::StatusOr<KernelChoice> ChooseKernel(const KernelSet& kernels, const FusedLayers& layers,
                                          const KernelInfo* forced, KernelChooser* chooser) {
  std::vector<KernelChoice> choices = RankKernels(kernels, layers, forced);
  if (choices.empty()) {
    const bool exact = kernels.precision() == Precision::kExact;
    return absl::UnimplementedError(absl::StrCat(
        "the ", ToAbsl(kernels.backend()), " backend cannot run layer '", layers.main->name, "' (",
        ToAbsl(OpName(layers.main->op)), ")", exact ? "" : " in precision 'fast'"));
  }
  const bool is_forced = choices.front().info == forced;
  if (chooser == nullptr || is_forced || !IsMeasurable(kernels, layers, choices)) {
    return choices.front();
  }
  const Candidates candidates(kernels, *layers.main, std::move(choices));
  return candidates.Find(chooser->Choose(candidates));
}

}  // namespace upscaled
