#include "server/handlers/request_options.h"

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
#include "server/handlers/convert.h"

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

absl::Status CheckRange(std::string_view field, int64_t value, int64_t min, int64_t max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return InvalidOption(field, absl::StrCat(value), absl::StrCat(min, " to ", max));
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

absl::Status CheckSigma(std::string_view field, double value, double max) {
  if (value >= BilateralOptions::kMinSigma && value <= max) return absl::OkStatus();
  return InvalidOption(field, absl::StrCat(value),
                       absl::StrCat(BilateralOptions::kMinSigma, " to ", max));
}

absl::StatusOr<BilateralOptions> BilateralFromProto(const pb::BilateralFilter& proto) {
  RETURN_IF_ERROR(
      CheckSigma("prefilter.sigma_space", proto.sigma_space(), BilateralOptions::kMaxSigmaSpace));
  RETURN_IF_ERROR(
      CheckSigma("prefilter.sigma_range", proto.sigma_range(), BilateralOptions::kMaxSigmaRange));
  return BilateralOptions{proto.sigma_space(), proto.sigma_range()};
}

absl::StatusOr<std::optional<ImageFormat>> FormatFromProto(pb::ImageFormat proto) {
  const std::optional<ImageFormat> format = server::FromProto(proto);
  if (format.has_value() || proto == pb::IMAGE_FORMAT_UNSPECIFIED) return format;
  return InvalidOption("format", absl::StrCat(static_cast<int>(proto)),
                       "a value of ImageFormat, 0 to 3");
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
    ASSIGN_OR_RETURN(options.prefilter, BilateralFromProto(proto.prefilter()));
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

}  // namespace upscaled::server
