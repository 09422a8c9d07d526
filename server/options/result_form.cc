#include "server/options/result_form.h"

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "engine/image/format_options.h"
#include "server/base/error.h"

namespace upscaled::server {

EncodeOptions EncodingFor(const RequestOptions& options, const ImageHeader& source) {
  EncodeOptions encode = options.encode;
  encode.animation = source.animation;
  encode.format = options.format.value_or(ResultFormatOf(source.format));
  encode.metadata = options.metadata;
  const bool stays_webp = source.lossless_webp && encode.format == ImageFormat::kWebp;
  if (stays_webp && !options.has_quality) encode.quality = kLosslessWebpQuality;
  return encode;
}

absl::StatusOr<SampleType> SampleTypeFor(const RequestOptions& options, ImageFormat format,
                                         const ImageSpec& source, Size size) {
  ImageSpec spec = source;
  spec.width_px = size.width;
  spec.height_px = size.height;
  spec = OutputSpecFor(format, spec);
  if (options.depth == Depth::k8) spec.type = SampleType::kU8;
  if (options.depth == Depth::k16) spec.type = SampleType::kU16;
  RETURN_IF_ERROR(WithReason(CheckEncodable(format, spec), ErrorReason::kInvalidOption));
  return spec.type;
}

void WarnOfFormat(const RequestOptions& options, ImageFormat format, ImageFormat source,
                  std::vector<std::string>& warnings) {
  const absl::string_view written = ToAbsl(FormatName(format));
  if (!options.format.has_value() && format != source) {
    warnings.push_back(
        absl::StrCat(ToAbsl(FormatName(source)), " is not written: the result is ", written));
  }
  const auto warn_of_option = [&](const char* name, int value) {
    warnings.push_back(absl::StrCat(name, "=", value, " has no effect: the result is ", written));
  };
  if (options.has_quality && !UsesQuality(format))
    warn_of_option("quality", options.encode.quality);
  if (options.has_compression && !UsesCompression(format))
    warn_of_option("png_compression", options.encode.compression);
}

}  // namespace upscaled::server
