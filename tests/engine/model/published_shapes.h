// The tensors that published files of an architecture have, with few channels.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/engine/model/weights_files.h"

namespace upscaled::test {

using Shapes = std::vector<NamedShape>;
Shapes operator+(Shapes a, const Shapes& b);

Shapes Compact(int scale, bool prelu);
// One block of 4 channels that grows by 2; 12 or 48 planes are blocks of pixels.
Shapes Esrgan(int planes, int ups);
// For x2.
Shapes Span(int64_t width, bool norm);
// One block of 4 channels; of luma with one plane.
Shapes ArtCnn(int planes, int scale);
// One depthwise block of 6 channels, and this many stages of x2.
Shapes Dis(int stages);
// One block of 8 channels, of which a 17x17 kernel sees 2, for x2.
Shapes Plksr(bool real, bool gate);
// One block of 4 channels, widened to 6 of which 3 are convolved; for x2.
Shapes Mosr(bool mean_end);
// waifu2x's, of x1 or x2.
Shapes Cunet(int scale);

}  // namespace upscaled::test
