// MoSR ("Mamba Out Super-Resolution"), with a pixel shuffle at its end, plain or of eight results'
// mean.
#pragma once

#include "engine/model/architectures/architecture.h"

namespace upscaled {

bool RecogniseMosr(const TensorFile& file);
absl::StatusOr<int> MosrScale(const TensorFile& file);
void BuildMosr(NetworkBuilder& builder);

}  // namespace upscaled
