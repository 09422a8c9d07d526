// The formats that codec.h reads and writes.
#pragma once

#include <cstdint>
#include <string_view>

namespace upscaled {

enum class ImageFormat : uint8_t { kPng, kJpeg, kWebp };

std::string_view FormatName(ImageFormat format);  // "png", "jpeg", "webp"

}  // namespace upscaled
