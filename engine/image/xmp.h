// Editing XMP packets as text. Private to engine/image.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/geometry.h"

namespace upscaled {

// The packet with its orientation set to upright.
std::string UprightXmp(std::string_view xmp);

// The packet with its orientation set to upright, unless it is kept, every stated size of the image
// to `size`, and the sizes of a panorama that it is a part of in proportion.
std::string CorrectXmp(std::string_view xmp, Size size, bool keep_orientation);

// A fraction of EXIF; a denominator of 0 means that it is not known.
struct PositiveFraction {
  uint32_t numerator = 0, denominator = 0;
};
// The nearest fraction to the product; `fraction` itself if none is near.
PositiveFraction Times(PositiveFraction fraction, double factor);

// The packet with the resolutions of the two sides exchanged: of the image and of the camera's
// sensor.
std::string TurnXmpDensity(std::string_view xmp);

// The packet with the resolutions of the camera's sensor multiplied.
std::string ScaleXmpSensorDensity(std::string_view xmp, double factor_x, double factor_y);

// Whether the packet may tell where the image was taken; true for packets in other codes than
// UTF-8.
bool XmpTellsLocation(std::string_view xmp);

}  // namespace upscaled
