#include "server/rest/image_format.h"

#include "absl/strings/match.h"
#include "engine/base/string_view.h"
#include "server/handlers/convert.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;

using absl::EqualsIgnoreCase;

}  // namespace

std::string_view MediaType(pb::ImageFormat format) {
  const std::optional<ImageFormat> known = FromProto(format);
  return known.has_value() ? FormatMediaType(*known) : "application/octet-stream";
}

std::string_view FileExtension(pb::ImageFormat format) {
  switch (format) {
    case pb::IMAGE_FORMAT_PNG:
      return "png";
    case pb::IMAGE_FORMAT_JPEG:
      return "jpg";
    case pb::IMAGE_FORMAT_WEBP:
      return "webp";
    default:
      return "bin";
  }
}

std::optional<ImageFormat> FormatOfType(std::string_view media_type) {
  const absl::string_view type = ToAbsl(media_type);
  if (EqualsIgnoreCase(type, "image/png")) return ImageFormat::kPng;
  if (EqualsIgnoreCase(type, "image/jpeg") || EqualsIgnoreCase(type, "image/jpg")) {
    return ImageFormat::kJpeg;
  }
  if (EqualsIgnoreCase(type, "image/webp")) return ImageFormat::kWebp;
  return std::nullopt;
}

std::optional<pb::ImageFormat> FormatOfName(std::string_view name) {
  const absl::string_view text = ToAbsl(name);
  if (EqualsIgnoreCase(text, "png")) return pb::IMAGE_FORMAT_PNG;
  if (EqualsIgnoreCase(text, "jpeg") || EqualsIgnoreCase(text, "jpg")) return pb::IMAGE_FORMAT_JPEG;
  if (EqualsIgnoreCase(text, "webp")) return pb::IMAGE_FORMAT_WEBP;
  return std::nullopt;
}

}  // namespace upscaled::server
