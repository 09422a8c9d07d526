#include "server/handlers/convert.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/random/random.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "server/base/error.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;

constexpr double kMaxScale = 16;
constexpr int kMaxResultSidePx = 1 << 20;  // keeps the arithmetic of sizes far from overflow
constexpr int kMinTilePx = 32, kMaxTilePx = 4096;
constexpr size_t kMaxRequestIdBytes = 128;

absl::Status InvalidOption(std::string_view field, absl::string_view value,
                           absl::string_view expected) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidOption,
                   absl::StrCat(ToAbsl(field), " is ", value, "; it must be ", expected),
                   {{"field", std::string(field)}});
}

absl::Status CheckRange(std::string_view field, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return InvalidOption(field, absl::StrCat(value), absl::StrCat(least, " to ", most));
}

absl::StatusOr<TargetSize> TargetFromProto(const pb::UpscaleOptions& proto) {
  TargetSize target;
  if (proto.has_scale()) {
    if (!(proto.scale() > 0 && proto.scale() <= kMaxScale)) {
      return InvalidOption("scale", absl::StrCat(proto.scale()),
                           absl::StrCat("above 0, at most ", kMaxScale));
    }
    target.scale = proto.scale();
  } else if (proto.has_size()) {
    target.width_px = proto.size().width_px();
    target.height_px = proto.size().height_px();
    RETURN_IF_ERROR(CheckRange("size.width_px", target.width_px, 0, kMaxResultSidePx));
    RETURN_IF_ERROR(CheckRange("size.height_px", target.height_px, 0, kMaxResultSidePx));
    if (target.width_px == 0 && target.height_px == 0) {
      return InvalidOption("size", "0 x 0", "at least one pixel in one direction");
    }
  }
  return target;
}

absl::Status CheckSigma(std::string_view field, double value, double most) {
  if (value >= BilateralOptions::kMinSigma && value <= most) return absl::OkStatus();
  return InvalidOption(field, absl::StrCat(value),
                       absl::StrCat(BilateralOptions::kMinSigma, " to ", most));
}

absl::StatusOr<BilateralOptions> FromProto(const pb::BilateralFilter& proto) {
  RETURN_IF_ERROR(
      CheckSigma("prefilter.sigma_space", proto.sigma_space(), BilateralOptions::kMaxSigmaSpace));
  RETURN_IF_ERROR(
      CheckSigma("prefilter.sigma_range", proto.sigma_range(), BilateralOptions::kMaxSigmaRange));
  return BilateralOptions{proto.sigma_space(), proto.sigma_range()};
}

absl::StatusOr<std::optional<ImageFormat>> FormatFromProto(pb::ImageFormat proto) {
  switch (proto) {
    case pb::IMAGE_FORMAT_UNSPECIFIED:
      return std::nullopt;
    case pb::IMAGE_FORMAT_PNG:
      return ImageFormat::kPng;
    case pb::IMAGE_FORMAT_JPEG:
      return ImageFormat::kJpeg;
    case pb::IMAGE_FORMAT_WEBP:
      return ImageFormat::kWebp;
    default:
      return InvalidOption("format", absl::StrCat(static_cast<int>(proto)),
                           "a value of ImageFormat, 0 to 3");
  }
}

// Version 4 of RFC 4122.
std::string MakeUuid() {
  static thread_local absl::BitGen random;
  const uint64_t high = (random() & ~uint64_t{0xF000}) | 0x4000;
  const uint64_t low = (random() & ~(uint64_t{3} << 62)) | uint64_t{2} << 62;
  return absl::StrFormat("%08x-%04x-%04x-%04x-%012x", high >> 32, (high >> 16) & 0xFFFF,
                         high & 0xFFFF, low >> 48, low & 0xFFFF'FFFF'FFFF);
}

}  // namespace

absl::StatusOr<int> NoiseLevelFromProto(int value) {
  RETURN_IF_ERROR(CheckRange("noise_level", value, kNoDenoise, 3));
  return value;
}

absl::StatusOr<std::optional<Precision>> FromProto(pb::Precision proto) {
  switch (proto) {
    case pb::PRECISION_UNSPECIFIED:
      return std::nullopt;
    case pb::PRECISION_EXACT:
      return Precision::kExact;
    case pb::PRECISION_FAST:
      return Precision::kFast;
    default:
      return InvalidOption("precision", absl::StrCat(static_cast<int>(proto)),
                           "a value of Precision, 0 to 2");
  }
}

absl::StatusOr<RequestOptions> FromProto(const pb::UpscaleOptions& proto) {
  RequestOptions options;
  options.model = proto.model();
  if (proto.has_noise_level()) {
    ASSIGN_OR_RETURN(options.noise_level, NoiseLevelFromProto(proto.noise_level()));
  }
  ASSIGN_OR_RETURN(options.target, TargetFromProto(proto));
  if (proto.has_prefilter()) {
    ASSIGN_OR_RETURN(options.prefilter, FromProto(proto.prefilter()));
  }
  options.tta = proto.tta();
  ASSIGN_OR_RETURN(options.format, FormatFromProto(proto.format()));
  RETURN_IF_ERROR(CheckRange("quality", proto.quality(), 0, 100));
  if (proto.quality() != 0) options.encode.quality = proto.quality();
  if (proto.has_png_compression()) {
    RETURN_IF_ERROR(CheckRange("png_compression", proto.png_compression(), 0, 9));
    options.encode.compression = proto.png_compression();
  }
  options.keep_16_bit = proto.keep_16_bit();
  ASSIGN_OR_RETURN(options.precision, FromProto(proto.precision()));
  if (proto.tile_px() != 0) {
    RETURN_IF_ERROR(CheckRange("tile_px", proto.tile_px(), kMinTilePx, kMaxTilePx));
    options.tile_px = proto.tile_px();
  }
  return options;
}

absl::StatusOr<std::string> ChooseRequestId(const std::string& request_id) {
  if (request_id.empty()) return MakeUuid();
  if (request_id.size() > kMaxRequestIdBytes) {
    return InvalidOption("request_id", absl::StrCat(request_id.size(), " bytes long"),
                         absl::StrCat("at most ", kMaxRequestIdBytes));
  }
  if (!std::all_of(request_id.begin(), request_id.end(), absl::ascii_isgraph)) {
    return InvalidOption("request_id", "not plain text", "printable ASCII without spaces");
  }
  return request_id;
}

pb::ImageFormat ToProto(ImageFormat format) {
  switch (format) {
    case ImageFormat::kPng:
      return pb::IMAGE_FORMAT_PNG;
    case ImageFormat::kJpeg:
      return pb::IMAGE_FORMAT_JPEG;
    case ImageFormat::kWebp:
      return pb::IMAGE_FORMAT_WEBP;
  }
  return pb::IMAGE_FORMAT_UNSPECIFIED;
}

pb::Precision ToProto(Precision precision) {
  return precision == Precision::kExact ? pb::PRECISION_EXACT : pb::PRECISION_FAST;
}

pb::Model ToProto(const CatalogEntry& entry, bool is_default) {
  const ModelCard& card = *entry.card;
  pb::Model model;
  model.set_name(card.name);
  model.set_family(card.family);
  model.set_style(card.style);
  model.set_description(card.description);
  model.set_licence(card.licence);
  model.set_version(card.version);
  for (const int scale : card.Scales()) model.add_scales(scale);
  for (const int level : card.NoiseLevels()) model.add_noise_levels(level);
  for (const Precision precision : card.precisions) model.add_precisions(ToProto(precision));
  model.set_halo_px(entry.halo_px);
  model.set_is_default(is_default);
  model.set_default_precision(ToProto(entry.default_precision));
  return model;
}

pb::Device ToProto(const DeviceState& state) {
  pb::Device device;
  device.set_name(state.name);
  device.set_description(state.description);
  device.set_streams(state.streams);
  device.set_state(state.up ? pb::DEVICE_STATE_UP : pb::DEVICE_STATE_FAILED);
  device.set_failures(state.failures);
  if (!state.up) device.set_error(std::string(state.fault.message()));
  return device;
}

pb::Limits ToProto(const Limits& limits) {
  pb::Limits proto;
  proto.set_max_source_pixels(limits.max_source_pixels);
  proto.set_max_result_pixels(limits.max_result_pixels);
  proto.set_max_source_bytes(limits.max_source_bytes);
  proto.set_max_unary_bytes(limits.max_unary_bytes);
  proto.set_max_tile_pixels(limits.max_tile_pixels);
  proto.set_max_concurrent_requests(limits.max_concurrent_requests);
  proto.set_max_queue_pixels(limits.max_queue_pixels);
  proto.set_max_metadata_bytes(limits.max_metadata_bytes);
  proto.set_max_jpeg_scans(limits.max_jpeg_scans);
  return proto;
}

google::protobuf::Duration ToProto(absl::Duration duration) {
  google::protobuf::Duration proto;
  proto.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &duration));
  proto.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(duration)));
  return proto;
}

absl::Status ExplainEngineError(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return WithReason(status, ErrorReason::kInvalidImage);
    case absl::StatusCode::kResourceExhausted:
      if (RetryDelayOf(status).has_value()) return status;  // our own refusal
      return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kLimitExceeded,
                       std::string(status.message()));
    default:
      return status;
  }
}

}  // namespace upscaled::server
