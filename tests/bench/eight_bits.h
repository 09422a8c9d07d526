// The accuracy of 8-bit arithmetic, as offered by libraries such as oneDNN: not how fast it is.
#pragma once

#include "engine/image/image.h"
#include "engine/model/network.h"

namespace upscaled::bench {

// The network's result for an 8-bit RGB image, where each convolution multiplies 8-bit integers as
// oneDNN's do: its inputs by one scale and zero point, its weights by a scale for each output;
// sums, activations and all other layers are exact. The range of its inputs is the image's own,
// unknown to any calibration beforehand: at least as good as a library's.
Image RunInEightBits(const Network& network, const ImageView& source);

}  // namespace upscaled::bench
