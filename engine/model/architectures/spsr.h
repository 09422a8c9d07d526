// SPSR: an RRDB network with a second branch to restore the lengths of the image's gradients. Ma et
// al., "Structure-Preserving Super Resolution with Gradient Guidance", 2020
#pragma once

#include "absl/status/statusor.h"
#include "engine/model/architectures/network_builder.h"
#include "engine/model/tensors/tensor_file.h"

namespace upscaled {

bool RecogniseSpsr(const TensorFile& file);
absl::StatusOr<int> SpsrScale(const TensorFile& file);
void BuildSpsr(NetworkBuilder& builder);

}  // namespace upscaled
