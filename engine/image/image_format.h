// The formats of codec.h.
#pragma once

#include <cstdint>
#include <string_view>

namespace upscaled {

enum class ImageFormat : uint8_t { kPng, kJpeg, kWebp, kAvif, kJxl, kTiff, kGif, kBmp, kHeic };

inline constexpr ImageFormat kImageFormats[] = {
    ImageFormat::kPng,  ImageFormat::kJpeg, ImageFormat::kWebp,
    ImageFormat::kAvif, ImageFormat::kJxl,  ImageFormat::kTiff,
    ImageFormat::kGif,  ImageFormat::kBmp,  ImageFormat::kHeic};

std::string_view FormatName(ImageFormat format);  // "png", "jpeg", "webp", ...

}  // namespace upscaled
