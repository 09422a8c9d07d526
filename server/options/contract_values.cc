#include "server/options/contract_values.h"

#include <cstdint>

namespace upscaled::server {

namespace pb = upscale::v1;

pb::ImageFormat ToProto(ImageFormat format) {
  switch (format) {
    case ImageFormat::kPng:
      return pb::IMAGE_FORMAT_PNG;
    case ImageFormat::kJpeg:
      return pb::IMAGE_FORMAT_JPEG;
    case ImageFormat::kWebp:
      return pb::IMAGE_FORMAT_WEBP;
    case ImageFormat::kAvif:
      return pb::IMAGE_FORMAT_AVIF;
    case ImageFormat::kJxl:
      return pb::IMAGE_FORMAT_JXL;
    case ImageFormat::kTiff:
      return pb::IMAGE_FORMAT_TIFF;
    case ImageFormat::kGif:
      return pb::IMAGE_FORMAT_GIF;
    case ImageFormat::kBmp:
      return pb::IMAGE_FORMAT_BMP;
    case ImageFormat::kHeic:
      return pb::IMAGE_FORMAT_HEIC;
  }
  return pb::IMAGE_FORMAT_UNSPECIFIED;
}

std::optional<ImageFormat> FromProto(pb::ImageFormat format) {
  for (const ImageFormat ours : kImageFormats)
    if (ToProto(ours) == format) return ours;
  return std::nullopt;
}

pb::Precision ToProto(Precision precision) {
  return precision == Precision::kExact ? pb::PRECISION_EXACT : pb::PRECISION_FAST;
}

google::protobuf::Duration ToProto(absl::Duration duration) {
  google::protobuf::Duration proto;
  proto.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &duration));
  proto.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(duration)));
  return proto;
}

absl::Duration FromProto(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

}  // namespace upscaled::server
