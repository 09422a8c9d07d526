// MoESR: gated blocks with convolutions of squares, rows and columns, and more of them among halved
// planes. umzi2, "MoESR: Mamba out Excitation Super-Resolution", 2024
#pragma once

#include "engine/model/architectures/architecture.h"

namespace upscaled {

bool RecogniseMoEsr(const TensorFile& file);
absl::StatusOr<int> MoEsrScale(const TensorFile& file);
void BuildMoEsr(NetworkBuilder& builder);

}  // namespace upscaled
