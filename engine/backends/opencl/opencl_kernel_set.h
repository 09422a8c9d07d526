// This backend's kernels as the compiler asks for them.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/backends/opencl/context.h"
#include "engine/backends/opencl/kernel_list.h"
#include "engine/graph/kernel_set.h"

namespace upscaled::opencl {

class OpenClKernelSet final : public KernelSet {
 public:
  OpenClKernelSet(std::shared_ptr<Context> context, Precision precision)
      : context_(std::move(context)), precision_(precision) {}

  std::string_view backend() const override { return "opencl"; }
  std::string device() const override;
  Precision precision() const override { return precision_; }
  std::vector<const KernelInfo*> List() const override;
  bool Supports(const KernelInfo& kernel, const FusedLayers& layers) const override;
  size_t ConfigCount(const KernelInfo& kernel) const override;
  // By the driver's platform, or else by the maker of the device.
  bool IsKnownGood(const KernelChoice& choice) const override;
  std::string NameOf(const KernelChoice& choice) const override;
  size_t PackedBytesBound(const Layer& layer) const override;
  std::unique_ptr<LayerCandidate> Try(const Layer& layer, const KernelChoice& choice,
                                      Size input) const override;
  Size TimedOutput(const Layer& layer) const override;

 private:
  const std::shared_ptr<Context> context_;
  const Precision precision_;
};

}  // namespace upscaled::opencl
