// DAT: blocks with attention in turns among the pixels of rectangles (lying across for one half of
// the channels) and among channels by their products over the image.
// Chen et al., "Dual Aggregation Transformer for Image Super-Resolution", 2023;
// https://github.com/zhengchen1999/DAT
#pragma once

#include "engine/model/architectures/network_builder.h"

namespace upscaled {

bool RecogniseDat(const TensorFile& file);
absl::StatusOr<int> DatScale(const TensorFile& file);
void BuildDat(NetworkBuilder& builder);

}  // namespace upscaled
