// waifu2x's cunet, as Real-CUGAN has it, too: two U-Nets with squeeze and excite, of valid
// convolutions. x1 and x2 (waifu2x), x2, x3 and x4 (Real-CUGAN, with its "pro" range).
#pragma once

#include "engine/model/architectures/architecture.h"

namespace upscaled {

bool RecogniseCunet(const TensorFile& file);
absl::StatusOr<int> CunetScale(const TensorFile& file);
void BuildCunet(NetworkBuilder& builder);

}  // namespace upscaled
