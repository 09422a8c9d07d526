#include "client/spread/spread_plan.h"

#include <algorithm>
#include <limits>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/pipeline/choose_noise.h"
#include "engine/pipeline/choose_passes.h"
#include "server/options/result_form.h"

namespace upscaled::client {
namespace {

namespace v1 = ::upscale::v1;

// Threads of one PNG result; few keep up with any number of servers.
constexpr int kMaxEncodeThreads = 4;

ModelCard CardOf(const v1::Model& model) {
  ModelCard card;
  card.name = model.name();
  for (const v1::ModelVariant& pair : model.variants())
    card.variants.push_back({.scale = pair.scale(), .noise_level = pair.noise_level()});
  if (!card.variants.empty()) return card;
  for (const int scale : model.scales()) {
    for (const int level : model.noise_levels()) {
      card.variants.push_back({.scale = scale, .noise_level = level});
    }
  }
  return card;
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

absl::StatusOr<server::RequestOptions> ReadOptions(const v1::UpscaleOptions& options) {
  if (options.seamless()) {
    return absl::InvalidArgumentError(
        "seamless is true; it must be absent from an image of --spread");
  }
  return server::FromProto(options);
}

DecodeLimits DecodeLimitsFor(const server::RequestOptions& options) {
  return {.max_pixels = std::numeric_limits<int32_t>::max(),
          .frame = std::max(1, options.frame),
          .warns_of_frames = !options.frame_is_asked,
          .fill_damage = options.fill_damage};
}

absl::StatusOr<SpreadPlan> PlanSpread(const server::RequestOptions& options, const v1::Model& model,
                                      const ImageHeader& source) {
  const ModelCard card = CardOf(model);
  SpreadPlan plan;
  ASSIGN_OR_RETURN(const ResolvedTarget target,
                   ResolveTarget(options.target, source.spec.size(), NativeScale(card)));
  plan.part = target.source;
  plan.result = target.result;
  plan.encode = EncodingFor(options, source);
  plan.encode.threads =
      std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMaxEncodeThreads);
  ASSIGN_OR_RETURN(plan.upscale.result_type,
                   SampleTypeFor(options, plan.encode.format, source.spec, plan.result));

  const UpscaleOptions defaults;
  plan.upscale.prefilter = options.prefilter;
  plan.upscale.tta = options.tta;
  plan.upscale.tile_px = options.tile_px;
  plan.upscale.keep_colours = options.keep_colours.value_or(defaults.keep_colours);
  plan.upscale.alpha = options.alpha.value_or(defaults.alpha);
  plan.upscale.alpha_colour = options.alpha_colour.value_or(defaults.alpha_colour);
  plan.upscale.spare_flat_areas = false;  // only a server has the network's blocks
  plan.noise_level = options.auto_noise ? ChooseNoiseLevel(source, plan.part.size(), plan.result,
                                                           card.NoiseLevels())
                                        : options.noise_level;
  const ModelCard* const chain[] = {&card};
  ASSIGN_OR_RETURN(const ChosenPasses chosen,
                   ChoosePasses(chain, plan.part.size(), plan.result, plan.noise_level));
  for (const ModelPass& pass : chosen.passes) plan.passes.push_back(*pass.variant);
  plan.warnings = chosen.warnings;
  WarnOfFormat(options, plan.encode.format, source.format, plan.warnings);
  return plan;
}

}  // namespace upscaled::client
