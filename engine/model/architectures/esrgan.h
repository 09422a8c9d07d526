// ESRGAN's RRDBNet: residuals in residuals of dense blocks, then as often as it takes a nearest x2
// and a convolution. In the three spellings of ESRGAN itself, BSRGAN and Real-ESRGAN; with
// ESRGAN+'s residual path inside the dense blocks; and over blocks of pixels (PixelUnshuffle).
#pragma once

#include "engine/model/architectures/architecture.h"

namespace upscaled {

bool RecogniseEsrgan(const TensorFile& file);
absl::StatusOr<int> EsrganScale(const TensorFile& file);
void BuildEsrgan(NetworkBuilder& builder);

}  // namespace upscaled
