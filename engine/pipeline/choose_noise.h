// noise=auto: the noise level that suits a JPEG.
#pragma once

#include <optional>
#include <vector>

#include "engine/base/geometry.h"
#include "engine/image/codec.h"

namespace upscaled {

// The one of `levels` (ModelCard::NoiseLevels, ascending) that suits a file that was compressed so:
// the level that measured best, or the next gentler one, or the gentlest. A file that is no JPEG
// wants kNoDenoise, which is the gentlest.
int ChooseNoiseLevel(const std::optional<JpegCoding>& jpeg, const std::vector<int>& levels);

// ChooseNoiseLevel for an image that is enlarged, and kNoDenoise for others: their network would
// run for that alone.
int ChooseNoiseLevel(const ImageHeader& header, Size source, Size result,
                     const std::vector<int>& levels);

}  // namespace upscaled
