// Formats of images by the names that HTTP and people use.
#pragma once

#include <optional>
#include <string_view>

#include "engine/image/codec.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::server {

// "image/png", ...; "application/octet-stream" for what is none of them.
std::string_view MediaType(upscale::v1::ImageFormat format);
// "png", "jpg", "webp"; "bin" for what is none of them.
std::string_view FileExtension(upscale::v1::ImageFormat format);
// Of a media type without parameters; "image/jpg" is taken for "image/jpeg".
std::optional<ImageFormat> FormatOfType(std::string_view media_type);
// "png", "jpeg", "jpg" or "webp", whatever their case.
std::optional<upscale::v1::ImageFormat> FormatOfName(std::string_view name);

}  // namespace upscaled::server
