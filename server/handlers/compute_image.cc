#include "server/handlers/compute_image.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/pipeline/cells.h"
#include "engine/pipeline/dihedral.h"
#include "engine/pipeline/transcode.h"
#include "server/base/error.h"
#include "server/handlers/deadline_check.h"
#include "server/handlers/engine_limits.h"
#include "server/handlers/resolve_job.h"
#include "server/handlers/result_sharing.h"
#include "server/handlers/work_slice.h"
#include "server/options/contract_values.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;

// The speed of general-2x on the core of the times below.
constexpr int64_t kCostPerNanosecond = 130;

// The work of the stages around the networks for each pixel of the result: the final resize,
// alpha, conversion, encoding. They take 25 to 55 ns of a core for PNG and JPEG, 170 for WebP,
// 400 to 500 for JPEG XL, and up to 1100 for AVIF.
constexpr int64_t kResultPixelCost = 6'000;
constexpr int64_t kWebpResultPixelCost = 22'000;
constexpr int64_t kJxlResultPixelCost = 60'000;
constexpr int64_t kAvifResultPixelCost = 140'000;

int64_t ResultPixelCost(ImageFormat format) {
  if (format == ImageFormat::kAvif) return kAvifResultPixelCost;
  if (format == ImageFormat::kJxl) return kJxlResultPixelCost;
  return format == ImageFormat::kWebp ? kWebpResultPixelCost : kResultPixelCost;
}

// Decoding takes up to 50 ns of a core (PNG).
constexpr int64_t kSourcePixelCost = 6'000;

// The work of decoding and encoding.
int64_t CodecCost(Size source, Size result, ImageFormat format) {
  return source.Area() * kSourcePixelCost + result.Area() * ResultPixelCost(format);
}

// The work of all frames; each costs as much.
int64_t ForFrames(int64_t cost, int frames) {
  return static_cast<int64_t>(std::min(frames * static_cast<double>(cost), kMaxCost));
}

// The steps of one computation, in order.
class ImageComputation {
 public:
  ImageComputation(const HandlerEnvironment& environment, const CallContext& context,
                   const ImageRequest& request, const ImageStreams& streams, Flight* flight)
      : environment_(environment),
        context_(context),
        request_(request),
        streams_(streams),
        meter_(flight == nullptr ? nullptr : flight->meter()),
        flow_(environment.scheduler.OpenFlow(context.payer, meter_,
                                             flight == nullptr ? nullptr : flight->payers())) {}

  absl::StatusOr<ComputedImage> Run() {
    WorkSlice slice;
    const TranscodeRequest request{
        .input = streams_.input,
        .output = streams_.output,
        .executor = flow_,
        .cancellation = &context_.cancellation,
        .limits = ToDecodeLimits(environment_, request_.options),
        .header = &request_.source,
        .progress = {.on_tile = [this](int64_t done, int64_t total) { OnTile(done, total); },
                     .on_spared = [this](int64_t px) { context_.record.spared_pixels += px; }},
        .on_rows =
            [this, &slice] {
              slice.GoOn();
              FollowPayer();
            },
        .on_wait = [this](bool waits) { flow_.SetClientWait(waits); },
        .open = Opener(),
        .clock = environment_.clock};
    absl::StatusOr<TranscodeStats> stats =
        TranscodeImage(request, [this](const ImageHeader&) { return Admit(); });
    return Conclude(std::move(stats));
  }

  absl::StatusOr<ImageVerdict> Judge() {
    const absl::StatusOr<TranscodePlan> plan = Admit();
    if (!plan.ok()) return ExplainEngineError(plan.status());
    return ImageVerdict{.source_format = request_.source.format,
                        .cost = cost_,
                        .memory_bytes = MemoryOf(*plan),
                        .time_to_end = forecast_.has_value()
                                           ? forecast_->total()
                                           : environment_.admission.state().queue_time};
  }

 private:
  // Decodes at the expense of the payer.
  ImageOpener Opener() {
    if (!environment_.open_image) return nullptr;
    return [this](const ImageHeader& header, ByteSource& source, const DecodeLimits& limits,
                  Cancellation* cancellation) {
      const Payer& payer = context_.payer;
      return environment_.open_image(
          header, source, limits, cancellation,
          {.client = payer.name(), .weight = payer.weight(), .cpu_time = &decoder_time_});
    };
  }

  // All facts from the image's header.
  absl::StatusOr<TranscodePlan> Admit() {
    ASSIGN_OR_RETURN(TranscodePlan plan, Plan());
    const ImageSpec& source = request_.source.spec;
    const ImageSpec& result = plan.upscale.result;
    const int frames = plan.frames();
    network_cost_ = ForFrames(plan.upscale.cost, frames);
    cost_ = network_cost_ +
            ForFrames(CodecCost(source.size(), result.size(), plan.encode.format), frames);
    RETURN_IF_ERROR(Reserve(plan));
    RETURN_IF_ERROR(CheckTime(plan.upscale));
    context_.record.source = source.size();
    context_.record.result = result.size();
    context_.record.source_pixels = frames * source.size().Area();
    result_pixels_ = frames * result.size().Area();
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
    announcement.set_model(request_.models.name());
    announcement.set_tiles(frames * plan.upscale.tile_count);
    announcement.set_frames(frames);
    const int noise_level = request_.resolved.noise_level;
    if (noise_level != kNoDenoise) announcement.set_noise_level(noise_level);
    if (forecast_.has_value()) *announcement.mutable_estimate() = ToProto(forecast_->total());
    for (const std::string& warning : plan.warnings) announcement.add_warnings(warning);
    if (request_.key.has_value()) {
      if (!passes_.empty()) {
        ASSIGN_OR_RETURN(const int kept, flow_.KeepClass());
        if (std::exchange(device_class_, kept) != kept) RETURN_IF_ERROR(Reserve(plan));
      }
      announcement.set_etag(environment_.sharing->NameOf(*request_.key, Arithmetic()));
    }
    if (!passes_.empty()) flow_.ExpectTiles(true);
    const RequestFlow::ClientWait wait(flow_);
    RETURN_IF_ERROR(streams_.on_header(announcement));
    return plan;
  }

  absl::Status Reserve(const TranscodePlan& plan) {
    return context_.reservation.Change({.memory_bytes = MemoryOf(plan),
                                        .scratch_bytes = ScratchOf(plan),
                                        .cost = cost_,
                                        .speed = Speed(),
                                        .device_class = device_class(),
                                        .payer = context_.payer});
  }

  // Whether it can end before the call's deadline.
  absl::Status CheckTime(const UpscalePlan& plan) {
    if (passes_.empty()) return absl::OkStatus();
    RETURN_IF_ERROR(CheckRequestTime(environment_.admission.limits(), NetworkTime(plan)));
    forecast_ =
        ForecastImage(environment_.scheduler.work(),
                      {.device_class = device_class(),
                       .priority = context_.payer.priority(),
                       .stream_speed = StreamSpeed(),
                       .cost = network_cost_,
                       .codec = absl::Nanoseconds((cost_ - network_cost_) / kCostPerNanosecond),
                       .tiles = plan.tile_count,
                       .streams_per_tile = StreamsPerTile(plan),
                       .cost_ahead = context_.reservation.CostAhead(),
                       .cost_ahead_if_lasting = context_.reservation.CostAhead(/*lasts=*/true)});
    if (!forecast_.has_value()) return absl::OkStatus();
    const absl::Time now = environment_.clock.Now();
    context_.record.forecast = now - context_.start + forecast_->total();
    return CheckDeadline(*forecast_, context_.deadline - now);
  }

  // The time of its networks if nothing else is computed; at the speed of a core while no speed is
  // known, so no image is let in for being the first.
  absl::Duration NetworkTime(const UpscalePlan& plan) const {
    constexpr double kUnknownSpeed = 1e9 * kCostPerNanosecond;
    const double known = StreamSpeed();
    const int64_t streams =
        std::min<int64_t>(std::max(environment_.scheduler.StreamCount(device_class()), 1),
                          std::max<int64_t>(plan.tile_count, 1) * StreamsPerTile(plan));
    return absl::Seconds(static_cast<double>(network_cost_) /
                         ((known > 0 ? known : kUnknownSpeed) * static_cast<double>(streams)));
  }

  // How many may share a tile of any of its networks.
  static int StreamsPerTile(const UpscalePlan& plan) {
    int streams = std::numeric_limits<int>::max();
    for (const PassSpec& pass : plan.passes) {
      streams = std::min(streams, MostStreamsOf(*pass.executable, pass.tile));
    }
    return streams;
  }

  // -1: no network runs.
  int device_class() const { return device_class_; }

  // The speed at which the planned streams compute the image, with the other stages running at the
  // same time; 0: not known.
  double Speed() const {
    if (passes_.empty()) return 0;
    return StreamSpeed() * environment_.scheduler.StreamCount(device_class()) *
           static_cast<double>(cost_) / static_cast<double>(network_cost_);
  }

  // The speed of the slowest network.
  double StreamSpeed() const {
    double slowest = std::numeric_limits<double>::infinity();
    for (const auto& pass : passes_) {
      slowest = std::min(slowest, environment_.scheduler.StreamSpeed(*pass));
    }
    return slowest;
  }

  int64_t MemoryOf(const TranscodePlan& plan) const {
    return static_cast<int64_t>(plan.memory_bytes + streams_.buffer_bytes);
  }

  absl::StatusOr<TranscodePlan> Plan() {
    const ImageHeader& header = request_.source;
    const ResolvedJob& resolved = request_.resolved;
    const Size source = resolved.part.size();
    // Before a model is loaded for it; the model's actual need takes its place, and it replaces the
    // call's earlier reservation.
    context_.reservation.Release();
    ASSIGN_OR_RETURN(
        context_.reservation,
        environment_.admission.Reserve({.memory_bytes = static_cast<int64_t>(streams_.buffer_bytes),
                                        .cost = RoughCost(source, resolved),
                                        .payer = context_.payer}));
    RETURN_IF_ERROR(LoadPasses(source, resolved));
    const int streams = passes_.empty() ? 1 : environment_.scheduler.StreamCount(device_class());
    ImageSpec part = header.spec;
    part.width_px = source.width;
    part.height_px = source.height;
    ASSIGN_OR_RETURN(
        UpscalePlan upscale,
        PlanUpscale(part, resolved.result, {passes_.begin(), passes_.end()},
                    {.prefilter = request_.options.prefilter,
                     .tta = request_.options.tta,
                     .seamless = request_.options.seamless,
                     .keep_colours = resolved.keep_colours,
                     .alpha = resolved.alpha.value_or(AlphaMethod::kResample),
                     .alpha_colour = resolved.alpha_colour.value_or(AlphaColour::kBleed),
                     .tile_px = request_.options.tile_px,
                     .result_type = resolved.sample_type,
                     .activation_cache_bytes = ActivationCacheBytes(),
                     .row_stream_bytes = RowStreamBytes(),
                     .kept_frame_bytes = KeptFrameBytes(),
                     .concurrency = std::max(streams, 1)}));
    ASSIGN_OR_RETURN(TranscodePlan plan,
                     PlanTranscode(header, resolved.part, std::move(upscale), resolved.encode));
    plan.warnings.insert(plan.warnings.end(), resolved.warnings.begin(), resolved.warnings.end());
    for (size_t i = 0; i < resolved.passes.size(); ++i) {
      WarnOfCells(*resolved.passes[i].model, plan.upscale.passes[i], plan.warnings);
      WarnOfTiles(*resolved.passes[i].model, plan.upscale.passes[i], plan.warnings);
    }
    return plan;
  }

  static void WarnOfCells(const ModelCard& model, const PassSpec& pass,
                          std::vector<std::string>& warnings) {
    if (!pass.cells) return;
    const Size cell = pass.cells->cell();
    warnings.push_back(absl::StrCat(
        "model ", model.name, " ", WhyCells(pass.executable->network()), ": it computes ",
        pass.source.width_px, "x", pass.source.height_px, " pixels in ", pass.cells->count(),
        " cells of ", cell.width, "x", cell.height, ", each as an image of its own"));
  }

  void WarnOfTiles(const ModelCard& model, const PassSpec& pass,
                   std::vector<std::string>& warnings) const {
    const int tile_px = request_.options.tile_px;
    if (tile_px == 0 || !(pass.cells || pass.rows)) return;
    warnings.push_back(absl::StrCat("tile_px ", tile_px, " has no effect: model ", model.name,
                                    " computes this image in ",
                                    pass.cells ? "cells" : "rows of its full width"));
  }

  int64_t RoughCost(Size source, const ResolvedJob& resolved) const {
    return ForFrames(CodecCost(source, resolved.result, resolved.encode.format) +
                         RoughNetworkCost(source, resolved),
                     resolved.encode.animation.value_or(Animation()).frames);
  }

  // Without the halos of tiles, each network taken as similar to the native scale's.
  int64_t RoughNetworkCost(Size source, const ResolvedJob& resolved) const {
    double pixels = static_cast<double>(SourcePixels(source, resolved)), cost = 0;
    for (const ModelPass& pass : resolved.passes) {
      const int native = NativeScale(*pass.model);
      cost += pixels * native * native * request_.models.EntryOf(*pass.model).macs_per_pixel;
      pixels *= pass.variant->scale * pass.variant->scale;
    }
    return static_cast<int64_t>(std::min(cost, kMaxCost));
  }

  // The networks' input pixels: once for colours, once for alpha, and once per orientation with
  // TTA.
  int64_t SourcePixels(Size source, const ResolvedJob& resolved) const {
    const int images = resolved.alpha == AlphaMethod::kNetwork ? 2 : 1;
    return source.Area() * images * (request_.options.tta ? Dihedral::kCount : 1);
  }

  // The networks from one size to the other, on their devices.
  absl::Status LoadPasses(Size source, const ResolvedJob& resolved) {
    ASSIGN_OR_RETURN(
        DeviceChooser::Choice choice,
        environment_.chooser.Load(resolved.passes, resolved.precision,
                                  SourcePixels(source, resolved), &context_.cancellation));
    passes_ = choice.executables;
    if (!passes_.empty()) device_class_ = passes_.front()->device_class();
    flow_.Adopt(std::move(choice));
    return absl::OkStatus();
  }

  std::string Arithmetic() const {
    if (passes_.empty()) return "";
    return passes_.front()->PartOf(device_class_).device->arithmetic();
  }

  // Whether a device of another class than the chosen one has computed, too.
  bool IsMixed(const RequestUsage& usage) const {
    return std::ranges::any_of(usage.devices, [this](const std::string& name) {
      return std::ranges::none_of(passes_.front()->parts(), [&](const auto& part) {
        return part.device->name() == name && part.device->device_class() == device_class();
      });
    });
  }

  int64_t ScratchOf(const TranscodePlan& plan) const {
    size_t bytes = 0;
    for (size_t i = 0; i < passes_.size(); ++i) {
      const PassSpec& pass = plan.upscale.passes[i];
      const size_t streams = passes_[i]->parts().front().device->stream_count();
      bytes = std::max(bytes, pass.rows ? streams * pass.rows->scratch_bytes
                                        : passes_[i]->ScratchBytes(pass.tile));
      // Parts of frames are cut into tiles of their own.
      if (plan.frames() > 1)
        bytes = std::max(bytes, passes_[i]->ScratchBytes(passes_[i]->PreferredTile()));
    }
    return static_cast<int64_t>(bytes);
  }

  // Saves time where networks have global poolings, but must not crowd out other requests.
  size_t ActivationCacheBytes() const {
    return static_cast<size_t>(environment_.admission.memory_budget_bytes()) / 8;
  }

  // Spares work, and is the request's own: others wait for its memory.
  size_t RowStreamBytes() const {
    return static_cast<size_t>(environment_.admission.memory_budget_bytes()) / 2;
  }

  // Spares work as well.
  size_t KeptFrameBytes() const {
    return static_cast<size_t>(environment_.admission.memory_budget_bytes()) / 4;
  }

  // Notes the speed of a single model: nothing tells how much of the time each of a chain took.
  void RecordSpeed(const RequestUsage& usage) const {
    if (request_.models.links().size() > 1) return;
    environment_.catalog.RecordRun(request_.models.name(), usage.infer, usage.cost);
  }

  // Charges the memory to the owner of the work's place.
  void FollowPayer() {
    const int64_t changes = flow_.payer_changes();
    if (std::exchange(payer_changes_, changes) == changes) return;
    context_.reservation.ChargeMemoryTo(flow_.payer().address);
  }

  void OnTile(int64_t done, int64_t total) {
    const double share = static_cast<double>(done) / static_cast<double>(total);
    context_.reservation.ReportProgress(static_cast<int64_t>(share * static_cast<double>(cost_)));
    if (done == total) flow_.ExpectTiles(false);
    if (streams_.on_progress) streams_.on_progress(done, total);
  }

  // By the time it took.
  int64_t DecoderCost() const {
    return absl::ToInt64Nanoseconds(decoder_time_) * kCostPerNanosecond;
  }

  void Charge(int64_t cost) const {
    context_.record.cost += cost;
    if (meter_ != nullptr) *meter_ += cost;
  }

  absl::StatusOr<ComputedImage> Conclude(absl::StatusOr<TranscodeStats> stats) {
    const RequestUsage usage = flow_.usage();
    RequestRecord& record = context_.record;
    record.device = absl::StrJoin(usage.devices, ", ");
    record.tiles = usage.tiles;
    record.queue = usage.queue;
    record.infer = usage.infer;
    RecordSpeed(usage);
    record.cost = usage.cost;
    record.stages.queue = usage.queuing;
    record.stages.infer = usage.running;
    record.stages.tiles = usage.tile_runs;
    if (!stats.ok()) {
      Charge(DecoderCost());  // a broken image's, too
      return ExplainEngineError(stats.status());
    }
    const int64_t forecast = record.source.Area() * kSourcePixelCost;
    Charge(cost_ - network_cost_ + std::max<int64_t>(DecoderCost() - forecast, 0));
    context_.reservation.ReportProgress(cost_);
    record.decode = stats->decode;
    record.encode = stats->encode;
    record.stages.decode = stats->decoding;
    record.stages.encode = stats->encoding;
    record.result_pixels = result_pixels_;
    record.sent_bytes = stats->result_bytes;
    record.unchanged_pixels = stats->unchanged_px;

    ComputedImage computed{.arithmetic = Arithmetic(), .mixed = IsMixed(usage)};
    pb::UpscaleSummary& summary = computed.summary;
    summary.set_result_bytes(stats->result_bytes);
    summary.set_tiles(usage.tiles);
    summary.set_spared_pixels(record.spared_pixels);
    summary.set_unchanged_pixels(stats->unchanged_px);
    summary.set_unchanged_frames(stats->unchanged_frames);
    summary.set_device(record.device);
    for (std::string& warning : stats->warnings) summary.add_warnings(std::move(warning));
    pb::StageTimings& timings = *summary.mutable_timings();
    *timings.mutable_total() = ToProto(environment_.clock.Now() - context_.start);
    *timings.mutable_queue() =
        ToProto(usage.tiles == 0 ? absl::ZeroDuration() : usage.queue / usage.tiles);
    *timings.mutable_decode() = ToProto(stats->decode);
    *timings.mutable_infer() = ToProto(usage.infer);
    *timings.mutable_encode() = ToProto(stats->encode);
    return computed;
  }

  const HandlerEnvironment& environment_;
  const CallContext& context_;
  const ImageRequest& request_;
  const ImageStreams& streams_;
  const std::shared_ptr<CostMeter> meter_;  // null: the request is not shared
  RequestFlow flow_;
  DeviceExecutables passes_;
  int device_class_ = -1;        // planned with, and after KeepClass the one that computes
  absl::Duration decoder_time_;  // of the processor, when its process has ended
  int64_t payer_changes_ = 0;    // of the flow, that the memory has followed
  int64_t network_cost_ = 0;     // in multiply-adds, of all frames
  int64_t cost_ = 0;             // of the result's pixels as well
  int64_t result_pixels_ = 0;    // of all frames
  std::optional<Forecast> forecast_;
};

class NoSink final : public ByteSink {
 public:
  absl::Status Write(std::span<const uint8_t>) override { return absl::OkStatus(); }
};

}  // namespace

absl::StatusOr<ImageVerdict> JudgeImage(const HandlerEnvironment& environment,
                                        const CallContext& context, const RequestOptions& options,
                                        ByteSource& input) {
  ASSIGN_OR_RETURN(ImageRequest request, StartRequest(environment, options));
  context.record.model = request.models.name();
  {
    HeldSource header(input, /*total_bytes=*/0);
    RETURN_IF_ERROR(ReadSourceHeader(environment, context, header, /*buffer_bytes=*/0, request));
  }
  NoSink output;
  pb::UpscaleImageHeader announced;
  const ImageStreams streams{.input = input,
                             .output = output,
                             .on_header = [&announced](const pb::UpscaleImageHeader& header) {
                               announced = header;
                               return absl::OkStatus();
                             }};
  ASSIGN_OR_RETURN(ImageVerdict verdict,
                   ImageComputation(environment, context, request, streams, nullptr).Judge());
  verdict.header = std::move(announced);
  return verdict;
}

absl::StatusOr<ComputedImage> ComputeImage(const HandlerEnvironment& environment,
                                           const CallContext& context, const ImageRequest& request,
                                           const ImageStreams& streams, Flight* flight) {
  return ImageComputation(environment, context, request, streams, flight).Run();
}

}  // namespace upscaled::server
