#include "server/handlers/resolve_job.h"

#include <algorithm>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/pipeline/choose_noise.h"
#include "engine/pipeline/choose_passes.h"
#include "server/base/error.h"

namespace upscaled::server {
namespace {

// Threads of one PNG result; each takes 1.6 MB, and few keep up with any device.
constexpr int kMaxEncodeThreads = 4;

}  // namespace

absl::StatusOr<ResolvedJob> ResolveJob(const HandlerEnvironment& environment,
                                       const RequestOptions& options, const ModelChain& models,
                                       const ImageHeader& source) {
  ResolvedJob job;
  const absl::StatusOr<ResolvedTarget> target =
      ResolveTarget(options.target, source.spec.size(), NativeScale(models.cards()));
  if (!target.ok()) return WithReason(target.status(), ErrorReason::kInvalidOption);
  job.part = target->source;
  job.result = target->result;
  RETURN_IF_ERROR(CheckResultSize(environment.admission.limits(), job.result));

  job.encode = options.encode;
  job.encode.format = options.format.value_or(source.format);
  job.encode.metadata = options.metadata;
  const bool stays_webp = source.lossless_webp && job.encode.format == ImageFormat::kWebp;
  if (stays_webp && !options.has_quality) job.encode.quality = kLosslessWebpQuality;
  job.encode.threads = std::min(environment.scheduler.concurrency(), kMaxEncodeThreads);
  ImageSpec spec = source.spec;
  spec.width_px = job.result.width;
  spec.height_px = job.result.height;
  spec = OutputSpecFor(job.encode.format, spec);
  if (options.depth == Depth::k8) spec.type = SampleType::kU8;
  if (options.depth == Depth::k16) spec.type = SampleType::kU16;
  RETURN_IF_ERROR(WithReason(CheckEncodable(job.encode.format, spec), ErrorReason::kInvalidOption));
  job.sample_type = spec.type;

  job.noise_level = options.auto_noise ? ChooseNoiseLevel(source, job.part.size(), job.result,
                                                          models.NoiseLevels())
                                       : options.noise_level;
  absl::StatusOr<ChosenPasses> chosen =
      ChoosePasses(models.cards(), job.part.size(), job.result, job.noise_level);
  if (!chosen.ok()) return WithReason(chosen.status(), ErrorReason::kUnknownModel);
  job.passes = std::move(chosen->passes);
  job.warnings = std::move(chosen->warnings);
  job.precision = options.precision.value_or(models.default_precision());
  const UpscaleOptions defaults;
  if (!job.passes.empty()) job.keep_colours = options.keep_colours.value_or(defaults.keep_colours);
  if (source.spec.has_alpha()) {
    if (!job.passes.empty()) job.alpha = options.alpha.value_or(defaults.alpha);
    job.alpha_colour = options.alpha_colour.value_or(defaults.alpha_colour);
  }
  return job;
}

}  // namespace upscaled::server
