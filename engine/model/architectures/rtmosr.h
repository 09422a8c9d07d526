// RTMoSR: gated blocks with a mix of halved planes and their maxima, with the enlarged image added.
// umzi2 and the-database, "RTMoSR", 2025
#pragma once

#include "engine/model/architectures/architecture.h"

namespace upscaled {

bool RecogniseRtMosr(const TensorFile& file);
absl::StatusOr<int> RtMosrScale(const TensorFile& file);
void BuildRtMosr(NetworkBuilder& builder);

}  // namespace upscaled
