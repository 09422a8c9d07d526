#include "client/jobs/result_store.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "client/jobs/result_folder.h"
#include "client/jobs/s3_results.h"
#include "engine/base/status_macros.h"

namespace upscaled::client {

absl::StatusOr<std::unique_ptr<ResultStore>> OpenResults(const std::string& place,
                                                         const S3Access& access) {
  if (IsS3Url(place)) {
    const std::string prefix(absl::StripSuffix(place, "/"));
    RETURN_IF_ERROR(HttpUrlOf(prefix + "/errors", access).status());
    return std::make_unique<S3Results>(prefix, access);
  }
  ASSIGN_OR_RETURN(ResultFolder folder, ResultFolder::Open(place));
  return std::make_unique<ResultFolder>(std::move(folder));
}

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
