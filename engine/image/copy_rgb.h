// Packed RGB samples into an image with possibly more channels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine/image/image.h"

namespace upscaled {

// Copies `count` pixels of packed RGB, of the sample type of `spec`, into the first three channels
// of those from `dst` on.
inline void CopyRgb(const uint8_t* rgb, int count, const ImageSpec& spec, uint8_t* dst) {
  const size_t rgb_bytes = kRgbChannels * SampleBytes(spec.type), pixel_bytes = spec.pixel_bytes();
  if (pixel_bytes == rgb_bytes) {
    std::memcpy(dst, rgb, count * rgb_bytes);
    return;
  }
  for (int n = 0; n < count; ++n) {
    std::memcpy(dst + n * pixel_bytes, rgb + n * rgb_bytes, rgb_bytes);
  }
}

}  // namespace upscaled
