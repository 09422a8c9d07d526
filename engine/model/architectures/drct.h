// DRCT: groups of five blocks of Swin, dense: each reads the results of all before it.
// Hsu et al., "DRCT: Saving Image Super-Resolution away from Information Bottleneck", 2024;
// https://github.com/ming053l/DRCT
#pragma once

#include "engine/model/architectures/network_builder.h"

namespace upscaled {

bool RecogniseDrct(const TensorFile& file);
absl::StatusOr<int> DrctScale(const TensorFile& file);
void BuildDrct(NetworkBuilder& builder);

}  // namespace upscaled
