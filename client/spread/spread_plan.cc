#include "client/spread/spread_plan.h"

#include <algorithm>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/pipeline/choose_noise.h"
#include "engine/pipeline/choose_passes.h"

namespace upscaled::client {
namespace {

namespace v1 = ::upscale::v1;

// Threads of one PNG result; few keep up with any number of servers.
constexpr int kMaxEncodeThreads = 4;

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

EncodeOptions EncodingOf(const v1::UpscaleOptions& options, ImageFormat source) {
  EncodeOptions encode{.format = ResultFormatOf(source)};
  switch (options.format()) {
    case v1::IMAGE_FORMAT_PNG:
      encode.format = ImageFormat::kPng;
      break;
    case v1::IMAGE_FORMAT_JPEG:
      encode.format = ImageFormat::kJpeg;
      break;
    case v1::IMAGE_FORMAT_WEBP:
      encode.format = ImageFormat::kWebp;
      break;
    case v1::IMAGE_FORMAT_AVIF:
      encode.format = ImageFormat::kAvif;
      break;
    case v1::IMAGE_FORMAT_JXL:
      encode.format = ImageFormat::kJxl;
      break;
    case v1::IMAGE_FORMAT_TIFF:
      encode.format = ImageFormat::kTiff;
      break;
    default:
      break;
  }
  if (options.quality() != 0) encode.quality = options.quality();
  if (options.has_png_compression()) encode.compression = options.png_compression();
  encode.threads =
      std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMaxEncodeThreads);
  return encode;
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

absl::StatusOr<SpreadPlan> PlanSpread(const v1::UpscaleOptions& options, const v1::Model& model,
                                      const ImageHeader& source) {
  const ModelCard card = CardOf(model);
  SpreadPlan plan;
  ASSIGN_OR_RETURN(const ResolvedTarget target,
                   ResolveTarget(TargetOf(options), source.spec.size(), NativeScale(card)));
  plan.part = target.source;
  plan.result = target.result;
  plan.encode = EncodingOf(options, source.format);

  ImageSpec spec = source.spec;
  spec.width_px = plan.result.width;
  spec.height_px = plan.result.height;
  spec = OutputSpecFor(plan.encode.format, spec);
  if (options.depth() == v1::DEPTH_8) spec.type = SampleType::kU8;
  if (options.depth() == v1::DEPTH_16) spec.type = SampleType::kU16;
  RETURN_IF_ERROR(CheckEncodable(plan.encode.format, spec));

  plan.upscale.result_type = spec.type;
  plan.upscale.tta = options.tta();
  plan.upscale.seamless = options.seamless();
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
  const int noise_level =
      options.has_noise_level()
          ? options.noise_level()
          : ChooseNoiseLevel(source, plan.part.size(), plan.result, card.NoiseLevels());
  const ModelCard* const chain[] = {&card};
  ASSIGN_OR_RETURN(const ChosenPasses chosen,
                   ChoosePasses(chain, plan.part.size(), plan.result, noise_level));
  for (const ModelPass& pass : chosen.passes) plan.passes.push_back(*pass.variant);
  plan.warnings = chosen.warnings;
  return plan;
}

}  // namespace upscaled::client
