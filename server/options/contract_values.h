// Formats, precisions and durations as the contract writes them.
#pragma once

#include <optional>

#include "absl/time/time.h"
#include "engine/image/codec.h"
#include "engine/model/precision.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::server {

upscale::v1::ImageFormat ToProto(ImageFormat format);
std::optional<ImageFormat> FromProto(upscale::v1::ImageFormat format);  // nullopt: not a format
upscale::v1::Precision ToProto(Precision precision);
google::protobuf::Duration ToProto(absl::Duration duration);
absl::Duration FromProto(const google::protobuf::Duration& duration);

}  // namespace upscaled::server
