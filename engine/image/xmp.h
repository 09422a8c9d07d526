// Editing XMP packets as text. Private to engine/image.
#pragma once

#include <string>
#include <string_view>

#include "engine/base/geometry.h"

namespace upscaled {

// The packet with its orientation set to upright.
std::string UprightXmp(std::string_view xmp);

// The packet with its orientation set to upright, unless it is kept, every stated size of the image
// to `size`, and the sizes of a panorama that it is a part of in proportion.
std::string CorrectXmp(std::string_view xmp, Size size, bool keep_orientation);

// Whether the packet may tell where the image was taken; true for packets in other codes than
// UTF-8.
bool XmpTellsLocation(std::string_view xmp);

}  // namespace upscaled
