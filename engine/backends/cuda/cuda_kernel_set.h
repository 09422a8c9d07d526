// This backend's kernels as the compiler asks for them.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/backends/cuda/context.h"
#include "engine/graph/kernel_set.h"

namespace upscaled::cuda {

class CudaKernelSet final : public KernelSet {
 public:
  CudaKernelSet(std::shared_ptr<Context> context, Precision precision)
      : context_(std::move(context)), precision_(precision) {}

  std::string_view backend() const override { return "cuda"; }
  std::string device() const override;
  Precision precision() const override { return precision_; }
  // Convolutions of the image before the others.
  std::vector<const KernelInfo*> List() const override;
  bool Supports(const KernelInfo& kernel, const FusedLayers& layers) const override;
  unsigned Fuses(const KernelInfo& kernel, const Layer& main) const override;
  size_t PackedBytesBound(const Layer& layer) const override;
  std::unique_ptr<LayerCandidate> Try(const Layer& layer, const KernelChoice& choice,
                                      Size input) const override;
  // Blocks for all multiprocessors several times over, of an input no larger.
  Size TimedOutput(const Layer& layer) const override;
  // Blocks are up to 32 groups wide and high.
  Size CheckedOutput(const Layer& layer) const override;

 private:
  const std::shared_ptr<Context> context_;
  const Precision precision_;
};

}  // namespace upscaled::cuda
