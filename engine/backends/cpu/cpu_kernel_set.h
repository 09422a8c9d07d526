// This backend's kernels as the compiler asks for them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/backends/cpu/kernels/isa.h"
#include "engine/backends/cpu/kernels/kernel_list.h"
#include "engine/graph/kernel_set.h"

namespace upscaled::cpu {

// The hardware for which measured times hold: the CPU's model and the instruction set.
std::string DeviceName(Isa isa);

// A fully connected layer as a 1x1 convolution; others as they are.
Layer AsConvolution(Layer layer);

class CpuKernelSet final : public KernelSet {
 public:
  CpuKernelSet(Isa isa, Precision precision) : isa_(isa), precision_(precision) {}

  std::string_view backend() const override { return "cpu"; }
  std::string device() const override { return DeviceName(isa_); }
  Precision precision() const override { return precision_; }
  std::vector<const KernelInfo*> List() const override;
  bool Supports(const KernelInfo& kernel, const FusedLayers& layers) const override;
  unsigned Fuses(const KernelInfo& kernel, const Layer& main) const override;
  size_t PackedBytesBound(const Layer& layer) const override;
  // The best kernel of a layer that is another one's KernelEntry::prelude.
  const KernelEntry& PreludeKernel(const Layer& prelude) const;
  std::unique_ptr<LayerCandidate> Try(const Layer& layer, const KernelChoice& choice,
                                      Size input) const override;

 private:
  const Isa isa_;
  const Precision precision_;
};

}  // namespace upscaled::cpu
