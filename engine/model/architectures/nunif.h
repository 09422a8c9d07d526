// waifu2x's vgg_7 and upconv_7 as nunif trains and stores them: a row of valid convolutions.
// https://github.com/nagadomi/nunif
#pragma once

#include "engine/model/architectures/network_builder.h"

namespace upscaled {

bool RecogniseVgg7(const TensorFile& file);
absl::StatusOr<int> Vgg7Scale(const TensorFile& file);
void BuildVgg7(NetworkBuilder& builder);

bool RecogniseUpconv7(const TensorFile& file);
absl::StatusOr<int> Upconv7Scale(const TensorFile& file);
void BuildUpconv7(NetworkBuilder& builder);

}  // namespace upscaled
