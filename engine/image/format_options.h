// Which of EncodeOptions the files of a format depend on.
#pragma once

#include "engine/image/codec.h"

namespace upscaled {

// Files by Deflate.
inline bool UsesCompression(ImageFormat format) {
  return format == ImageFormat::kPng || format == ImageFormat::kTiff;
}

inline bool UsesQuality(ImageFormat format) { return !UsesCompression(format); }

}  // namespace upscaled
