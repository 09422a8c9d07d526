// An image as its file stores it, and a decoder to turn it upright. Private to engine/image.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/image/codec.h"
#include "engine/image/row_source.h"

namespace upscaled {

// Samples of pixels missing in a damaged file (DecodeLimits::fill_damage): gray, as libjpeg makes
// of missing blocks. All samples are 0, transparent, where the image has alpha.
inline constexpr uint8_t kMissingSample = 128;

class StoredImage : public RowSource {
 public:
  // Members as of ImageDecoder.
  ImageMetadata metadata, late_metadata;
  std::vector<std::string> warnings;
};

// The size of the image before it is turned upright.
ImageSpec StoredSpec(const ImageHeader& header);

// `stored` is ready for its first row.
std::unique_ptr<ImageDecoder> MakeDecoder(const ImageHeader& header,
                                          std::unique_ptr<StoredImage> stored);

}  // namespace upscaled
