// The choice of a layer's kernel and of how it is launched.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/graph/kernel_choice.h"
#include "engine/backends/opencl/context.h"
#include "engine/backends/opencl/kernel_list.h"
#include "engine/model/network.h"
#include "engine/model/precision.h"

namespace upscaled::opencl {

// A layer has at most so many choices.
inline constexpr size_t kMaxChoices = 16;

// What could run `layer`, best first: what is known of devices like this (by its driver's platform,
// or else by its maker), then the order of the kernel list. Of `forced` (may be null) alone where
// it supports the layer.
std::vector<KernelChoice> RankChoices(const Device& device, const Layer& layer,
                                      const KernelInfo* forced);

// What `chooser` says where it is not null, no kernel is forced on the layer and there is a choice;
// else the first of RankChoices. UNIMPLEMENTED: no kernel supports the layer.
absl::StatusOr<KernelChoice> ChooseKernel(std::shared_ptr<Context> context, const Layer& layer,
                                          Precision precision, const KernelInfo* forced,
                                          KernelChooser* chooser);

}  // namespace upscaled::opencl
