// PLKSR and RealPLKSR, with its group normalisations or without: blocks with large kernels over the
// first quarter of the channels. Paper: Lee et al., "Partial Large Kernel CNNs for Efficient
// Super-Resolution", 2024.
#pragma once

#include "engine/model/architectures/architecture.h"

namespace upscaled {

bool RecognisePlksr(const TensorFile& file);
absl::StatusOr<int> PlksrScale(const TensorFile& file);
void BuildPlksr(NetworkBuilder& builder);

}  // namespace upscaled
