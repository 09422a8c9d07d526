// Reading and editing EXIF blocks in place: offsets inside them (of maker notes, too) stay true. A
// block is a TIFF file, from its byte order on. Safe for any bytes: directories are walked once and
// every access is checked.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/image/codec.h"

namespace upscaled {

// Stands before the block in a JPEG APP1 segment, and in files of other formats by some writers.
inline constexpr std::string_view kExifBegin("Exif\0\0", 6);

// The block itself.
inline std::string_view WithoutExifBegin(std::string_view exif) {
  return exif.starts_with(kExifBegin) ? exif.substr(kExifBegin.size()) : exif;
}

// nullopt: no EXIF, or EXIF without a valid orientation.
std::optional<Orientation> ExifOrientation(std::span<const uint8_t> tiff);

// Sets the orientation to upright, unless it is kept or not valid (see ExifOrientation), and every
// stated size to `size`; takes the thumbnail out.
// False: `exif` is no TIFF file, or one made to hurt; then it is of no use.
bool CorrectExif(std::string& exif, Size size, bool keep_orientation);

// Takes out the GPS directory, and the first directory's blocks of XMP and IPTC. False as above.
bool StripExifLocation(std::string& exif);

// Exchanges the resolutions of the two sides if `orientation` exchanges the sides: the density, and
// in EXIF and XMP also those on the camera's sensor.
void TurnDensity(Orientation orientation, ImageMetadata& metadata);

// Multiplies the resolutions on the camera's sensor, in EXIF and XMP, as the sides of the image
// are: readers tell the sensor's size by them and the image's.
void ScaleSensorDensity(double factor_x, double factor_y, ImageMetadata& metadata);

// Adds the density to a block without one. An empty `exif` becomes a block with nothing else.
// False: `exif` states another density, or is damaged; then it stays.
bool SetExifDensity(const PixelDensity& density, std::string& exif);

}  // namespace upscaled
