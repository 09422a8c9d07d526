#include "server/options/request_options.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/base/random_uuid.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "server/base/error.h"
#include "server/options/contract_values.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;

constexpr double kMaxScale = 16;
constexpr int kMaxResultSidePx = 1 << 20;  // keeps the arithmetic of sizes far from overflow
constexpr int kMinTilePx = 32, kMaxTilePx = 4096;
constexpr size_t kMaxRequestIdBytes = 128;
constexpr int kMaxFrame = 1'000'000;

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

absl::Status UnknownValue(std::string_view field, int value, int most) {
  return InvalidOption(field, absl::StrCat(value),
                       absl::StrCat("a value of its enum, 0 to ", most));
}

absl::StatusOr<Fit> FitFromProto(pb::Fit proto) {
  switch (proto) {
    case pb::FIT_UNSPECIFIED:
    case pb::FIT_CONTAIN:
      return Fit::kContain;
    case pb::FIT_COVER:
      return Fit::kCover;
    case pb::FIT_STRETCH:
      return Fit::kStretch;
    default:
      return UnknownValue("size.fit", proto, pb::Fit_MAX);
  }
}

absl::StatusOr<std::optional<AlphaMethod>> AlphaFromProto(pb::AlphaMethod proto) {
  switch (proto) {
    case pb::ALPHA_METHOD_UNSPECIFIED:
      return std::nullopt;
    case pb::ALPHA_METHOD_NETWORK:
      return AlphaMethod::kNetwork;
    case pb::ALPHA_METHOD_RESAMPLE:
      return AlphaMethod::kResample;
    default:
      return UnknownValue("alpha", proto, pb::AlphaMethod_MAX);
  }
}

absl::StatusOr<std::optional<AlphaColour>> AlphaColourFromProto(pb::AlphaColour proto) {
  switch (proto) {
    case pb::ALPHA_COLOUR_UNSPECIFIED:
      return std::nullopt;
    case pb::ALPHA_COLOUR_BLEED:
      return AlphaColour::kBleed;
    case pb::ALPHA_COLOUR_KEEP:
      return AlphaColour::kKeep;
    default:
      return UnknownValue("alpha_colour", proto, pb::AlphaColour_MAX);
  }
}

absl::StatusOr<MetadataPolicy> MetadataFromProto(pb::MetadataPolicy proto) {
  switch (proto) {
    case pb::METADATA_POLICY_UNSPECIFIED:
    case pb::METADATA_POLICY_KEEP:
      return MetadataPolicy::kKeep;
    case pb::METADATA_POLICY_STRIP:
      return MetadataPolicy::kStrip;
    case pb::METADATA_POLICY_STRIP_LOCATION:
      return MetadataPolicy::kStripLocation;
    case pb::METADATA_POLICY_ICC:
      return MetadataPolicy::kIcc;
    default:
      return UnknownValue("metadata", proto, pb::MetadataPolicy_MAX);
  }
}

absl::StatusOr<bool> FillDamageFromProto(pb::DamagePolicy proto) {
  switch (proto) {
    case pb::DAMAGE_POLICY_UNSPECIFIED:
    case pb::DAMAGE_POLICY_FAIL:
      return false;
    case pb::DAMAGE_POLICY_FILL:
      return true;
    default:
      return UnknownValue("on_damage", proto, pb::DamagePolicy_MAX);
  }
}

absl::StatusOr<Depth> DepthFromProto(pb::Depth proto) {
  switch (proto) {
    case pb::DEPTH_UNSPECIFIED:
      return Depth::kSource;
    case pb::DEPTH_8:
      return Depth::k8;
    case pb::DEPTH_16:
      return Depth::k16;
    default:
      return UnknownValue("depth", proto, pb::Depth_MAX);
  }
}

// "width_px 100, long_side_px 50"
std::string GivenSides(const pb::TargetSize& size) {
  const std::pair<const char*, int> sides[] = {{"width_px", size.width_px()},
                                               {"height_px", size.height_px()},
                                               {"short_side_px", size.short_side_px()},
                                               {"long_side_px", size.long_side_px()}};
  std::string given;
  for (const auto& [name, pixels] : sides)
    if (pixels != 0) absl::StrAppend(&given, given.empty() ? "" : ", ", name, " ", pixels);
  return given.empty() ? "without a side" : given;
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
    const pb::TargetSize& size = proto.size();
    const auto read = [](std::string_view field, int value, int& side_px) {
      side_px = value;
      return CheckRange(field, value, 0, kMaxResultSidePx);
    };
    RETURN_IF_ERROR(read("size.width_px", size.width_px(), target.width_px));
    RETURN_IF_ERROR(read("size.height_px", size.height_px(), target.height_px));
    RETURN_IF_ERROR(read("size.short_side_px", size.short_side_px(), target.short_side_px));
    RETURN_IF_ERROR(read("size.long_side_px", size.long_side_px(), target.long_side_px));
    const bool has_box = target.width_px > 0 || target.height_px > 0;
    if (has_box + (target.short_side_px > 0) + (target.long_side_px > 0) != 1) {
      return InvalidOption(
          "size", GivenSides(size),
          "a width, a height or both, or a short side, or a long side, of at least one pixel");
    }
    ASSIGN_OR_RETURN(target.fit, FitFromProto(size.fit()));
    if (size.fit() != pb::FIT_UNSPECIFIED && (target.width_px == 0 || target.height_px == 0)) {
      return InvalidOption("size.fit", "given", "absent unless both width_px and height_px are");
    }
  }
  if (proto.max_pixels() < 0) {
    return InvalidOption("max_pixels", absl::StrCat(proto.max_pixels()), "0 or more");
  }
  target.max_pixels = proto.max_pixels();
  target.no_enlarge = proto.no_enlarge();
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
                       "a value of ImageFormat, 0 to 9");
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
  options.seamless = proto.seamless();
  ASSIGN_OR_RETURN(options.format, FormatFromProto(proto.format()));
  RETURN_IF_ERROR(CheckRange("quality", proto.quality(), 0, 100));
  options.has_quality = proto.quality() != 0;
  if (options.has_quality) options.encode.quality = proto.quality();
  if (proto.has_png_compression()) {
    RETURN_IF_ERROR(CheckRange("png_compression", proto.png_compression(), 0, 9));
    options.encode.compression = proto.png_compression();
    options.has_compression = true;
  }
  ASSIGN_OR_RETURN(options.depth, DepthFromProto(proto.depth()));
  ASSIGN_OR_RETURN(options.precision, FromProto(proto.precision()));
  if (proto.tile_px() != 0) {
    RETURN_IF_ERROR(CheckRange("tile_px", proto.tile_px(), kMinTilePx, kMaxTilePx));
    options.tile_px = proto.tile_px();
  }
  if (proto.auto_noise() && proto.has_noise_level()) {
    return InvalidOption("auto_noise", "given next to noise_level",
                         "absent, or noise_level must be");
  }
  options.auto_noise = !proto.has_noise_level();
  ASSIGN_OR_RETURN(options.alpha, AlphaFromProto(proto.alpha()));
  ASSIGN_OR_RETURN(options.alpha_colour, AlphaColourFromProto(proto.alpha_colour()));
  if (proto.has_keep_colours()) options.keep_colours = proto.keep_colours();
  ASSIGN_OR_RETURN(options.metadata, MetadataFromProto(proto.metadata()));
  ASSIGN_OR_RETURN(options.fill_damage, FillDamageFromProto(proto.on_damage()));
  RETURN_IF_ERROR(CheckRange("frame", proto.frame(), 0, kMaxFrame));
  options.frame = proto.frame();
  options.frame_is_asked = options.frame > 0;
  // The format of a source with frames is one for frames, or gives way to one.
  if (options.frame == 0 && !HoldsFrames(options.format.value_or(ImageFormat::kPng)))
    options.frame = 1;
  return options;
}

absl::StatusOr<std::string> ChooseRequestId(const std::string& request_id) {
  if (request_id.empty()) return RandomUuid();
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
