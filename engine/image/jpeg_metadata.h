// Metadata in the segments of a JPEG file. Private to engine/image.
#pragma once

#include <string>
#include <vector>

#include "engine/image/jpeg_session.h"
#include "engine/image/metadata.h"

namespace upscaled {

// Fills in all but the profile, from the header read by `info` with its APP1, APP13 and COM markers
// saved. Adds a sentence for each left out block.
void ReadJpegMetadata(const jpeg_decompress_struct& info, ImageMetadata& metadata,
                      std::vector<std::string>& warnings);

// Sets the density for the file's JFIF header; before jpeg_start_compress.
void SetJpegDensity(const PixelDensity& density, jpeg_compress_struct& info);

// A segment and its marker.
struct JpegSegment {
  int marker;
  std::string payload;
};

// All but profile and density, see MetadataForResult.
std::vector<JpegSegment> JpegSegmentsOf(const ImageMetadata& metadata);

}  // namespace upscaled
