#include "client/spread/spread_plan.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "engine/pipeline/choose_noise.h"
#include "engine/pipeline/choose_passes.h"

namespace upscaled::client {
namespace {

namespace v1 = ::upscale::v1;

// Threads of one PNG result; few keep up with any number of servers.
constexpr int kMaxEncodeThreads = 4;

// As a server takes them (server/handlers/request_options.cc).
constexpr double kMaxScale = 16;
constexpr int kSmallestTilePx = 32, kLargestTilePx = 4096;
constexpr int kMaxFrame = 1'000'000;

ModelCard CardOf(const v1::Model& model) {
  ModelCard card;
  card.name = model.name();
  for (const int scale : model.scales()) {
    for (const int level : model.noise_levels()) {
      card.variants.push_back({.scale = scale, .noise_level = level});
    }
  }
  return card;
}

TargetSize TargetOf(const v1::UpscaleOptions& options) {
  TargetSize target{.scale = options.scale(),
                    .width_px = options.size().width_px(),
                    .height_px = options.size().height_px(),
                    .short_side_px = options.size().short_side_px(),
                    .long_side_px = options.size().long_side_px(),
                    .max_pixels = options.max_pixels(),
                    .no_enlarge = options.no_enlarge()};
  if (options.size().fit() == v1::FIT_COVER) target.fit = Fit::kCover;
  if (options.size().fit() == v1::FIT_STRETCH) target.fit = Fit::kStretch;
  return target;
}

std::optional<ImageFormat> FormatOf(v1::ImageFormat format) {
  switch (format) {
    case v1::IMAGE_FORMAT_PNG:
      return ImageFormat::kPng;
    case v1::IMAGE_FORMAT_JPEG:
      return ImageFormat::kJpeg;
    case v1::IMAGE_FORMAT_WEBP:
      return ImageFormat::kWebp;
    case v1::IMAGE_FORMAT_AVIF:
      return ImageFormat::kAvif;
    case v1::IMAGE_FORMAT_JXL:
      return ImageFormat::kJxl;
    case v1::IMAGE_FORMAT_TIFF:
      return ImageFormat::kTiff;
    default:  // others are only read
      return std::nullopt;
  }
}

MetadataPolicy MetadataOf(v1::MetadataPolicy policy) {
  switch (policy) {
    case v1::METADATA_POLICY_STRIP:
      return MetadataPolicy::kStrip;
    case v1::METADATA_POLICY_STRIP_LOCATION:
      return MetadataPolicy::kStripLocation;
    case v1::METADATA_POLICY_ICC:
      return MetadataPolicy::kIcc;
    default:
      return MetadataPolicy::kKeep;
  }
}

EncodeOptions EncodingOf(const v1::UpscaleOptions& options, const ImageHeader& source) {
  EncodeOptions encode;
  encode.format = FormatOf(options.format()).value_or(ResultFormatOf(source.format));
  const bool stays_webp = source.lossless_webp && encode.format == ImageFormat::kWebp;
  if (stays_webp) encode.quality = kLosslessWebpQuality;
  if (options.quality() != 0) encode.quality = options.quality();
  if (options.has_png_compression()) encode.compression = options.png_compression();
  encode.metadata = MetadataOf(options.metadata());
  encode.threads =
      std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMaxEncodeThreads);
  return encode;
}

absl::Status Invalid(absl::string_view field, absl::string_view value, absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat(field, " is ", value, "; it must be ", expected));
}

absl::Status CheckRange(absl::string_view field, int64_t value, int64_t min, int64_t max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return Invalid(field, absl::StrCat(value), absl::StrCat(min, " to ", max));
}

// Proto3 keeps numbers of an enum that this release does not know.
absl::Status CheckEnum(absl::string_view field, int value, int most) {
  if (value >= 0 && value <= most) return absl::OkStatus();
  return Invalid(field, absl::StrCat(value), absl::StrCat("a value of its enum, 0 to ", most));
}

absl::Status CheckFormat(v1::ImageFormat format) {
  if (format == v1::IMAGE_FORMAT_UNSPECIFIED || FormatOf(format).has_value()) {
    return absl::OkStatus();
  }
  return Invalid("format",
                 v1::ImageFormat_IsValid(format) ? v1::ImageFormat_Name(format)
                                                 : absl::StrCat(static_cast<int>(format)),
                 "a format that is written: png, jpeg, webp, avif, jxl or tiff");
}

absl::Status CheckTarget(const v1::UpscaleOptions& options) {
  if (options.has_scale() && !(options.scale() > 0 && options.scale() <= kMaxScale)) {
    return Invalid("scale", absl::StrCat(options.scale()),
                   absl::StrCat("above 0, at most ", kMaxScale));
  }
  const v1::TargetSize& size = options.size();
  const bool has_box = size.width_px() > 0 || size.height_px() > 0;
  const int sizes = int{has_box} + int{size.short_side_px() > 0} + int{size.long_side_px() > 0};
  if (options.has_size() && sizes != 1) {
    return Invalid("size", absl::StrCat("{ ", size.ShortDebugString(), " }"),
                   "a width, a height or both, or a short side, or a long side");
  }
  RETURN_IF_ERROR(CheckEnum("size.fit", size.fit(), v1::Fit_MAX));
  if (size.fit() != v1::FIT_UNSPECIFIED && (size.width_px() == 0 || size.height_px() == 0)) {
    return Invalid("size.fit", v1::Fit_Name(size.fit()),
                   "absent unless both width_px and height_px are given");
  }
  if (options.max_pixels() >= 0) return absl::OkStatus();
  return Invalid("max_pixels", absl::StrCat(options.max_pixels()), "0 or more");
}

}  // namespace

absl::StatusOr<v1::Model> FindModel(const v1::ListModelsResponse& models, const std::string& name) {
  for (const v1::Model& model : models.models()) {
    if (name.empty() ? model.is_default() : model.name() == name) return model;
  }
  for (const v1::Model& model : models.models()) {
    if (std::ranges::count(model.aliases(), name) != 0) return model;
  }
  if (name.find(',') != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("--spread computes one model at a time; '", name, "' names several"));
  }
  const auto format = [](std::string* out, const v1::Model& m) { absl::StrAppend(out, m.name()); };
  return absl::NotFoundError(absl::StrCat(
      "no model '", name, "'; there are: ", absl::StrJoin(models.models(), ", ", format)));
}

absl::Status CheckOptions(const v1::UpscaleOptions& options) {
  if (options.seamless()) return Invalid("seamless", "true", "absent from an image of --spread");
  if (options.has_noise_level()) {
    RETURN_IF_ERROR(CheckRange("noise_level", options.noise_level(), kNoDenoise, 3));
    if (options.auto_noise()) {
      return Invalid("auto_noise", "given next to noise_level", "absent, or noise_level must be");
    }
  }
  RETURN_IF_ERROR(CheckTarget(options));
  RETURN_IF_ERROR(CheckFormat(options.format()));
  RETURN_IF_ERROR(CheckRange("quality", options.quality(), 0, 100));
  if (options.has_png_compression()) {
    RETURN_IF_ERROR(CheckRange("png_compression", options.png_compression(), 0, 9));
  }
  if (options.tile_px() != 0) {
    RETURN_IF_ERROR(CheckRange("tile_px", options.tile_px(), kSmallestTilePx, kLargestTilePx));
  }
  RETURN_IF_ERROR(CheckRange("frame", options.frame(), 0, kMaxFrame));
  RETURN_IF_ERROR(CheckEnum("precision", options.precision(), v1::Precision_MAX));
  RETURN_IF_ERROR(CheckEnum("alpha", options.alpha(), v1::AlphaMethod_MAX));
  RETURN_IF_ERROR(CheckEnum("alpha_colour", options.alpha_colour(), v1::AlphaColour_MAX));
  RETURN_IF_ERROR(CheckEnum("metadata", options.metadata(), v1::MetadataPolicy_MAX));
  RETURN_IF_ERROR(CheckEnum("on_damage", options.on_damage(), v1::DamagePolicy_MAX));
  return CheckEnum("depth", options.depth(), v1::Depth_MAX);
}

DecodeLimits DecodeLimitsFor(const v1::UpscaleOptions& options) {
  return {.max_pixels = std::numeric_limits<int32_t>::max(),
          .frame = std::max(1, options.frame()),
          .warns_of_frames = options.frame() == 0,
          .fill_damage = options.on_damage() == v1::DAMAGE_POLICY_FILL};
}

absl::StatusOr<SpreadPlan> PlanSpread(const v1::UpscaleOptions& options, const v1::Model& model,
                                      const ImageHeader& source) {
  const ModelCard card = CardOf(model);
  SpreadPlan plan;
  ASSIGN_OR_RETURN(const ResolvedTarget target,
                   ResolveTarget(TargetOf(options), source.spec.size(), NativeScale(card)));
  plan.part = target.source;
  plan.result = target.result;
  plan.encode = EncodingOf(options, source);

  ImageSpec spec = source.spec;
  spec.width_px = plan.result.width;
  spec.height_px = plan.result.height;
  spec = OutputSpecFor(plan.encode.format, spec);
  if (options.depth() == v1::DEPTH_8) spec.type = SampleType::kU8;
  if (options.depth() == v1::DEPTH_16) spec.type = SampleType::kU16;
  RETURN_IF_ERROR(CheckEncodable(plan.encode.format, spec));

  plan.upscale.result_type = spec.type;
  plan.upscale.tta = options.tta();
  plan.upscale.tile_px = options.tile_px();
  if (options.has_keep_colours()) plan.upscale.keep_colours = options.keep_colours();
  if (options.alpha() == v1::ALPHA_METHOD_RESAMPLE) plan.upscale.alpha = AlphaMethod::kResample;
  if (options.alpha_colour() == v1::ALPHA_COLOUR_KEEP) {
    plan.upscale.alpha_colour = AlphaColour::kKeep;
  }
  // Only who has the network's blocks knows what repeats.
  plan.upscale.spare_flat_areas = false;
  if (options.has_prefilter()) {
    plan.upscale.prefilter = {options.prefilter().sigma_space(), options.prefilter().sigma_range()};
  }
  plan.noise_level = options.has_noise_level() ? options.noise_level()
                                               : ChooseNoiseLevel(source, plan.part.size(),
                                                                  plan.result, card.NoiseLevels());
  const ModelCard* const chain[] = {&card};
  ASSIGN_OR_RETURN(const ChosenPasses chosen,
                   ChoosePasses(chain, plan.part.size(), plan.result, plan.noise_level));
  for (const ModelPass& pass : chosen.passes) plan.passes.push_back(*pass.variant);
  plan.warnings = chosen.warnings;
  if (options.format() == v1::IMAGE_FORMAT_UNSPECIFIED && plan.encode.format != source.format) {
    plan.warnings.push_back(absl::StrCat(ToAbsl(FormatName(source.format)),
                                         " is not written: the result is ",
                                         ToAbsl(FormatName(plan.encode.format))));
  }
  return plan;
}

}  // namespace upscaled::client
