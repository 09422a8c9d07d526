#include "client/worker/result_names.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace upscaled::client {

const char* ExtensionOf(upscale::v1::ImageFormat format) {
  switch (format) {
    case upscale::v1::IMAGE_FORMAT_JPEG:
      return ".jpg";
    case upscale::v1::IMAGE_FORMAT_WEBP:
      return ".webp";
    case upscale::v1::IMAGE_FORMAT_AVIF:
      return ".avif";
    case upscale::v1::IMAGE_FORMAT_JXL:
      return ".jxl";
    case upscale::v1::IMAGE_FORMAT_TIFF:
      return ".tif";
    default:
      return ".png";
  }
}

std::string MediaTypeOf(const std::string& name) {
  if (absl::EndsWith(name, ".jpg")) return "image/jpeg";
  if (absl::EndsWith(name, ".tif")) return "image/tiff";
  for (const absl::string_view type : {"webp", "avif", "jxl"})
    if (absl::EndsWith(name, absl::StrCat(".", type))) return absl::StrCat("image/", type);
  return "image/png";
}

}  // namespace upscaled::client
