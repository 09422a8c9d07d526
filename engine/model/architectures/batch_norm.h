// Batch normalisation by the statistics of the training.
#pragma once

#include <string>

#include "engine/model/architectures/network_builder.h"

namespace upscaled {

// Appends the factor and the offset per channel from NAME's tensors.
int AddBatchNorm(NetworkBuilder& builder, int input, const std::string& name);

}  // namespace upscaled
