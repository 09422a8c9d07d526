// Kernels of which a test says what they support and fuse.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/graph/kernel_set.h"

namespace upscaled::test {

struct FakeKernelInfo : KernelInfo {
  std::set<Op> ops;
  size_t configs = 1;
  bool (*takes)(const Layer& layer) = [](const Layer& /*layer*/) { return true; };
};

class FakeKernelSet final : public KernelSet {
 public:
  explicit FakeKernelSet(std::vector<FakeKernelInfo> kernels) : kernels_(std::move(kernels)) {}

  // Kernels of convolutions with all fusions, and of everything else but global poolings.
  static FakeKernelSet FusingAll() {
    constexpr unsigned kAll = kFuseAdd | kFuseCrop | kFuseResize | kFuseShuffle;
    return FakeKernelSet({{{"conv", kAll}, Convolutions()}, {{"plain"}, Plain()}});
  }
  static std::set<Op> Convolutions() {
    return {Op::kConv, Op::kGroupedConv, Op::kConvTranspose, Op::kFullyConnected};
  }
  static std::set<Op> Plain() {
    return {Op::kPixelShuffle,
            Op::kResizeNearest,
            Op::kResizeBilinear,
            Op::kAdd,
            Op::kMul,
            Op::kConcat,
            Op::kCrop,
            Op::kPad,
            Op::kAffine,
            Op::kActivation,
            Op::kSlice,
            Op::kPixelNorm,
            Op::kGroupNorm,
            Op::kWindowAttention,
            Op::kChannelProducts,
            Op::kChannelAttention};
  }

  std::string_view backend() const override { return "fake"; }
  std::string device() const override { return "fake device"; }
  Precision precision() const override { return Precision::kExact; }
  std::vector<const KernelInfo*> List() const override {
    std::vector<const KernelInfo*> list;
    for (const FakeKernelInfo& kernel : kernels_) list.push_back(&kernel);
    return list;
  }
  bool Supports(const KernelInfo& kernel, const FusedLayers& layers) const override {
    const auto& own = static_cast<const FakeKernelInfo&>(kernel);
    return own.ops.contains(layers.main->op) && own.takes(*layers.main);
  }
  size_t ConfigCount(const KernelInfo& kernel) const override {
    return static_cast<const FakeKernelInfo&>(kernel).configs;
  }
  bool IsKnownGood(const KernelChoice& choice) const override { return NameOf(choice) == good; }
  std::string NameOf(const KernelChoice& choice) const override {
    return std::string(choice.info->name) + std::to_string(choice.config);
  }
  size_t PackedBytesBound(const Layer& layer) const override {
    return layer.weights.size() * bytes_per_weight;
  }
  std::unique_ptr<LayerCandidate> Try(const Layer&, const KernelChoice&, Size) const override {
    return nullptr;
  }

  const KernelInfo* operator[](size_t i) const { return &kernels_[i]; }

  std::string good;  // a name
  size_t bytes_per_weight = sizeof(float);

 private:
  const std::vector<FakeKernelInfo> kernels_;
};

}  // namespace upscaled::test
