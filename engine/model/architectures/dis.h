// DIS (Direct Image Supersampling): residual blocks of two convolutions, or of a depthwise and a
// 1x1 one, with PReLU; one or two pixel shuffles; the image added as a bilinear resize gives it. Of
// three planes, or of the luma only.
#pragma once

#include "engine/model/architectures/architecture.h"

namespace upscaled {

bool RecogniseDis(const TensorFile& file);
absl::StatusOr<int> DisScale(const TensorFile& file);
void BuildDis(NetworkBuilder& builder);

}  // namespace upscaled
