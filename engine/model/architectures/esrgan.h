// ESRGAN's RRDBNet: residuals in residuals of dense blocks, then as often as it takes a nearest x2
// and a convolution. In the three spellings of ESRGAN itself, BSRGAN and Real-ESRGAN; with
// ESRGAN+'s residual path inside the dense blocks; and over blocks of pixels (PixelUnshuffle).
#pragma once

#include <string>

#include "engine/model/architectures/architecture.h"

namespace upscaled {

bool RecogniseEsrgan(const TensorFile& file);
absl::StatusOr<int> EsrganScale(const TensorFile& file);
void BuildEsrgan(NetworkBuilder& builder);

// Behind the name of a block of ESRGAN: see AddRrdb.
inline constexpr char kRrdbConv[] = ".RDB$0.$1.0";

// Appends a residual block of three dense blocks. `conv`: the names of their convolutions, with $0
// for the dense block, from 1 on, and $1 "conv1" to "conv5"; `skip`: of ESRGAN+'s convolutions, if
// the file has them.
int AddRrdb(NetworkBuilder& builder, int x, const std::string& conv, const std::string& skip = "");

}  // namespace upscaled
