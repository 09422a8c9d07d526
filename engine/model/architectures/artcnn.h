// ArtCNN: residual blocks of three convolutions with ReLU, a pixel shuffle, and no skip of the
// image itself. Of three planes, or of the luma only.
#pragma once

#include "engine/model/architectures/architecture.h"

namespace upscaled {

bool RecogniseArtCnn(const TensorFile& file);
absl::StatusOr<int> ArtCnnScale(const TensorFile& file);
void BuildArtCnn(NetworkBuilder& builder);

}  // namespace upscaled
