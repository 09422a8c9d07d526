// Omni-SR: attention in windows and in grids, among pixels and among channels.
// Wang et al., "Omni Aggregation Networks for Lightweight Image Super-Resolution", 2023
#pragma once

#include "absl/status/statusor.h"
#include "engine/model/architectures/network_builder.h"
#include "engine/model/tensors/tensor_file.h"

namespace upscaled {

bool RecogniseOmniSr(const TensorFile& file);
absl::StatusOr<int> OmniSrScale(const TensorFile& file);
void BuildOmniSr(NetworkBuilder& builder);

}  // namespace upscaled
