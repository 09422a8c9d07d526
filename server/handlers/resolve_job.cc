#include "server/handlers/resolve_job.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/pipeline/choose_noise.h"
#include "engine/pipeline/choose_passes.h"
#include "server/base/error.h"
#include "server/options/result_form.h"

namespace upscaled::server {
namespace {

// Threads of one PNG result; each takes 1.6 MB, and few keep up with any device.
constexpr int kMaxEncodeThreads = 4;

// The least observed share of a result in its source's bytes per pixel: enlarged pixels are
// smoother, and lossy formats drop more of them than lossless ones.
constexpr double kMinLosslessShare = 0.25, kMinLossyShare = 1.0 / 32;

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
  const int frames = source.animation.value_or(Animation()).frames;
  RETURN_IF_ERROR(CheckResultSize(environment.admission.limits(), job.result, frames));

  job.frame = source.animation.has_value() ? 0 : std::max(options.frame, 1);
  job.frame_is_asked = options.frame_is_asked && source.may_move;
  job.encode = EncodingFor(options, source);
  job.encode.threads = std::min(environment.scheduler.concurrency(), kMaxEncodeThreads);
  ASSIGN_OR_RETURN(job.sample_type,
                   SampleTypeFor(options, job.encode.format, source.spec, job.result));

  job.noise_level = options.auto_noise ? ChooseNoiseLevel(source, job.part.size(), job.result,
                                                          models.NoiseLevels())
                                       : options.noise_level;
  absl::StatusOr<ChosenPasses> chosen =
      ChoosePasses(models.cards(), job.part.size(), job.result, job.noise_level);
  if (!chosen.ok()) return WithReason(chosen.status(), ErrorReason::kUnknownModel);
  job.passes = std::move(chosen->passes);
  job.warnings = std::move(chosen->warnings);
  WarnOfFormat(options, job.encode.format, source.format, job.warnings);
  job.precision = options.precision.value_or(models.default_precision());
  const UpscaleOptions defaults;
  if (!job.passes.empty()) job.keep_colours = options.keep_colours.value_or(defaults.keep_colours);
  if (source.spec.has_alpha()) {
    if (!job.passes.empty()) job.alpha = options.alpha.value_or(defaults.alpha);
    job.alpha_colour = options.alpha_colour.value_or(defaults.alpha_colour);
  }
  return job;
}

int64_t LeastResultBytes(const ImageSpec& source, int64_t source_bytes, const ResolvedJob& job) {
  const bool png = job.encode.format == ImageFormat::kPng;
  const bool lossless = png || job.encode.format == ImageFormat::kTiff;
  if (png && job.encode.compression == 0) {
    const int64_t sample_bytes = job.sample_type == SampleType::kU8 ? 1 : 2;
    return job.result.Area() * source.channels * sample_bytes;
  }
  const double growth =
      static_cast<double>(job.result.Area()) / static_cast<double>(source.size().Area());
  return static_cast<int64_t>(static_cast<double>(source_bytes) * growth *
                              (lossless ? kMinLosslessShare : kMinLossyShare));
}

absl::Status ResultTooLong(int64_t max_bytes, int64_t least_bytes) {
  return MakeError(
      absl::StatusCode::kInvalidArgument, ErrorReason::kLimitExceeded,
      absl::StrCat("the result has ",
                   least_bytes > 0 ? absl::StrCat("about ", least_bytes, " bytes, ") : "",
                   "more than the ", max_bytes,
                   " that Upscale carries; call UpscaleImage, which takes the same options in its "
                   "first message and returns a result of any size in chunks"),
      {{"maximum", absl::StrCat(max_bytes)}});
}

}  // namespace upscaled::server
