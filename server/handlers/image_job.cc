#include "server/handlers/image_job.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/pipeline/transcode.h"
#include "server/base/error.h"
#include "server/handlers/convert.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;

// Threads of one PNG result; each takes 1.6 MB, and few keep up with any device.
constexpr int kMaxEncodeThreads = 4;

// The decoders' limits, by the names that clients and operators know them by.
DecodeLimits ToDecodeLimits(const Limits& limits) {
  return {
      .max_pixels = limits.max_source_pixels,
      .max_metadata_bytes = static_cast<size_t>(limits.max_metadata_bytes),
      .max_jpeg_scans = limits.max_jpeg_scans,
      .explain = [&limits](DecodeLimit limit, int64_t value, const std::string& sentence) {
        switch (limit) {
          case DecodeLimit::kPixels:
            return LimitExceeded(sentence, value, limits.max_source_pixels, "max-source-pixels");
          case DecodeLimit::kMetadataBytes:
            return LimitExceeded(sentence, value, limits.max_metadata_bytes, "max-metadata-bytes");
          case DecodeLimit::kJpegScans:
            return LimitExceeded(sentence, value, limits.max_jpeg_scans, "max-jpeg-scans");
        }
        return absl::ResourceExhaustedError(sentence);
      }};
}

// A status of the engine with the reason, and where it differs the code, that it means to a client:
// the image is to blame when a codec rejects it, and the limits of codecs do not depend on the
// load.
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

// The steps of one job, in order.
class ImageJobRun {
 public:
  ImageJobRun(const HandlerEnvironment& environment, const CallContext& context,
              const ImageJob& job)
      : environment_(environment),
        context_(context),
        job_(job),
        flow_(environment.scheduler.OpenFlow()) {}

  absl::StatusOr<pb::UpscaleSummary> Run() {
    ASSIGN_OR_RETURN(model_, environment_.catalog.Find(job_.options.model));
    context_.record.model = model_->card->name;
    TranscodeRequest request{
        .input = job_.input,
        .output = job_.output,
        .executor = flow_,
        .cancellation = &context_.cancellation,
        .limits = ToDecodeLimits(environment_.admission.limits()),
        .progress = {[this](int64_t done, int64_t total) { OnTile(done, total); }},
        .clock = environment_.clock};
    absl::StatusOr<TranscodeStats> stats =
        TranscodeImage(request, [this](const ImageHeader& header) { return Admit(header); });
    return Conclude(std::move(stats));
  }

 private:
  // Everything that can be known from the image's first bytes.
  absl::StatusOr<TranscodePlan> Admit(const ImageHeader& header) {
    ASSIGN_OR_RETURN(TranscodePlan plan, Plan(header));
    const ImageSpec& source = plan.upscale.source;
    const ImageSpec& result = plan.upscale.result;
    const auto memory_bytes = static_cast<int64_t>(plan.memory_bytes + job_.buffer_bytes);
    ASSIGN_OR_RETURN(context_.reservation,
                     environment_.admission.Reserve({.memory_bytes = memory_bytes,
                                                     .scratch_bytes = ScratchOf(plan.upscale),
                                                     .source_pixels = source.size().Area()}));
    context_.record.source = source.size();
    context_.record.result = result.size();
    context_.record.source_pixels = source.size().Area();
    const ImageSpec& encoded = plan.convert.result;

    pb::UpscaleImageHeader announcement;
    announcement.set_request_id(context_.record.request_id);
    announcement.set_source_width_px(source.width_px);
    announcement.set_source_height_px(source.height_px);
    announcement.set_result_width_px(result.width_px);
    announcement.set_result_height_px(result.height_px);
    announcement.set_format(ToProto(plan.encode.format));
    announcement.set_bits_per_sample(static_cast<int>(8 * SampleBytes(encoded.type)));
    announcement.set_channels(encoded.channels);
    announcement.set_model(model_->card->name);
    announcement.set_tiles(plan.upscale.tile_count);
    RETURN_IF_ERROR(job_.on_header(announcement));
    return plan;
  }

  absl::StatusOr<TranscodePlan> Plan(const ImageHeader& header) {
    const Limits& limits = environment_.admission.limits();
    const RequestOptions& options = job_.options;
    const Size source = header.spec.size();
    absl::StatusOr<Size> result =
        ResolveTargetSize(options.target, source, NativeScale(*model_->card));
    if (!result.ok()) return WithReason(result.status(), ErrorReason::kInvalidOption);
    RETURN_IF_ERROR(CheckResultSize(limits, *result));

    EncodeOptions encode = options.encode;
    encode.format = options.format.value_or(header.format);
    encode.threads = std::min(environment_.scheduler.concurrency(), kMaxEncodeThreads);
    ImageSpec result_spec = header.spec;
    result_spec.width_px = result->width;
    result_spec.height_px = result->height;
    result_spec = OutputSpecFor(encode.format, result_spec);
    if (!options.keep_16_bit) result_spec.type = SampleType::kU8;
    RETURN_IF_ERROR(
        WithReason(CheckEncodable(encode.format, result_spec), ErrorReason::kInvalidOption));

    RETURN_IF_ERROR(LoadPasses(source, *result));
    const int streams =
        passes_.empty() ? 1 : environment_.scheduler.StreamCount(passes_.front()->device_class());
    ASSIGN_OR_RETURN(UpscalePlan upscale,
                     PlanUpscale(header.spec, *result, {passes_.begin(), passes_.end()},
                                 {.prefilter = options.prefilter,
                                  .tta = options.tta,
                                  .tile_px = options.tile_px,
                                  .result_type = result_spec.type,
                                  .activation_cache_bytes = ActivationCacheBytes(),
                                  .concurrency = std::max(streams, 1)}));
    return PlanTranscode(header, std::move(upscale), encode);
  }

  // The networks that lead from one size to the other, on the devices that are to run them.
  absl::Status LoadPasses(Size source, Size result) {
    const ModelCard& card = *model_->card;
    absl::StatusOr<std::vector<const ModelVariant*>> variants =
        ChoosePasses(card, source, result, job_.options.noise_level);
    if (!variants.ok()) return WithReason(variants.status(), ErrorReason::kUnknownModel);
    ASSIGN_OR_RETURN(
        DeviceChooser::Choice choice,
        environment_.chooser.Load(card, *variants,
                                  job_.options.precision.value_or(model_->default_precision),
                                  source.Area()));
    passes_ = choice.executables;
    flow_.Adopt(std::move(choice));
    return absl::OkStatus();
  }

  int64_t ScratchOf(const UpscalePlan& plan) const {
    size_t bytes = 0;
    for (size_t i = 0; i < passes_.size(); ++i) {
      bytes = std::max(bytes, passes_[i]->ScratchBytes(plan.passes[i].tile));
    }
    return static_cast<int64_t>(bytes);
  }

  // Saves time where networks have global poolings, but must not crowd out other requests.
  size_t ActivationCacheBytes() const {
    return static_cast<size_t>(environment_.admission.memory_budget_bytes()) / 8;
  }

  void OnTile(int64_t done, int64_t total) {
    context_.reservation.ReportProgress(done, total);
    if (job_.on_progress) job_.on_progress(done, total);
  }

  absl::StatusOr<pb::UpscaleSummary> Conclude(absl::StatusOr<TranscodeStats> stats) {
    const RequestUsage usage = flow_.usage();
    RequestRecord& record = context_.record;
    record.device = absl::StrJoin(usage.devices, ", ");
    record.tiles = usage.tiles;
    record.queue = usage.queue;
    record.infer = usage.infer;
    if (!stats.ok()) return ExplainEngineError(stats.status());
    record.decode = stats->decode;
    record.encode = stats->encode;
    record.result_pixels = record.result.Area();
    record.sent_bytes = stats->result_bytes;

    pb::UpscaleSummary summary;
    summary.set_result_bytes(stats->result_bytes);
    summary.set_tiles(usage.tiles);
    summary.set_device(record.device);
    pb::StageTimings& timings = *summary.mutable_timings();
    *timings.mutable_total() = ToProto(environment_.clock.Now() - context_.start);
    *timings.mutable_queue() =
        ToProto(usage.tiles == 0 ? absl::ZeroDuration() : usage.queue / usage.tiles);
    *timings.mutable_decode() = ToProto(stats->decode);
    *timings.mutable_infer() = ToProto(usage.infer);
    *timings.mutable_encode() = ToProto(stats->encode);
    return summary;
  }

  const HandlerEnvironment& environment_;
  const CallContext& context_;
  const ImageJob& job_;
  RequestFlow flow_;
  DeviceExecutables passes_;
  std::shared_ptr<const CatalogEntry> model_;
};

}  // namespace

absl::StatusOr<pb::UpscaleSummary> RunImageJob(const HandlerEnvironment& environment,
                                               const CallContext& context, const ImageJob& job) {
  return ImageJobRun(environment, context, job).Run();
}

}  // namespace upscaled::server
