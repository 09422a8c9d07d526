// noise=auto: the noise level for a JPEG.
#pragma once

#include <optional>
#include <vector>

#include "engine/base/geometry.h"
#include "engine/image/codec.h"

namespace upscaled {

// The best of `levels` (ModelCard::NoiseLevels, ascending) for a file of such compression: the
// level with the best measurement, or the next gentler one, or the gentlest. A file other than a
// JPEG gets kNoDenoise, the gentlest.
int ChooseNoiseLevel(const std::optional<JpegCoding>& jpeg, const std::vector<int>& levels);

// ChooseNoiseLevel for an enlarged image, and kNoDenoise for others: their network would run for
// this only.
int ChooseNoiseLevel(const ImageHeader& header, Size source, Size result,
                     const std::vector<int>& levels);

}  // namespace upscaled
