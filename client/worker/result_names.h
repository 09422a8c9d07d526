// Names and media types of files with results.
#pragma once

#include <string>

#include "upscale/v1/upscale.pb.h"

namespace upscaled::client {

// ".png", ".jpg" and so on.
const char* ExtensionOf(upscale::v1::ImageFormat format);
// "image/png" and so on, by the extension.
std::string MediaTypeOf(const std::string& name);

}  // namespace upscaled::client
