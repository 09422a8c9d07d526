// nagadomi's export of waifu2x networks (tools/export_model.lua): an array of convolutions.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "engine/model/network.h"

namespace upscaled {

// A network of the file's content; validated. LeakyReLU 0.1 follows every layer but the last; the
// file does not say so. With `enlarge_first`, size-keeping layers (vgg_7) see the image enlarged
// twice by repeating pixels. INVALID_ARGUMENT or UNIMPLEMENTED name the layer.
absl::StatusOr<Network> ParseWaifu2xJson(std::string_view text, bool enlarge_first);

}  // namespace upscaled
