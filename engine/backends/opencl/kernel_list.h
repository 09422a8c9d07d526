// Every kernel of this backend, best first. Plans, tests and the tuner read the same list.
#pragma once

#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "engine/backends/opencl/context.h"
#include "engine/backends/opencl/layer_kernel.h"
#include "engine/graph/kernel_set.h"
#include "engine/model/network.h"
#include "engine/model/precision.h"

namespace upscaled::opencl {

struct KernelEntry : KernelInfo {
  bool (*supports)(const Layer& layer);
  absl::StatusOr<std::unique_ptr<LayerKernel>> (*create)(Context& context, const Layer& layer,
                                                         Precision precision,
                                                         const LaunchConfig& config);
  // How it may be launched, at least one.
  std::span<const LaunchConfig> configs;
};

std::span<const KernelEntry> ListKernels();

// The one for 3x3 convolutions that has no blocks.
const KernelEntry& Conv3x3Kernel();

// How a chosen kernel of this backend is launched, and made.
const LaunchConfig& ConfigOf(const KernelChoice& choice);
absl::StatusOr<std::unique_ptr<LayerKernel>> Create(Context& context, const Layer& layer,
                                                    Precision precision,
                                                    const KernelChoice& choice);

}  // namespace upscaled::opencl
