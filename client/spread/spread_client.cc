#include "client/spread/spread_client.h"

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "client/spread/remote_network.h"
#include "client/spread/spread_plan.h"
#include "engine/base/cancellation.h"
#include "engine/base/status_macros.h"
#include "engine/image/byte_stream.h"
#include "engine/pipeline/local_executor.h"
#include "server/options/contract_values.h"

namespace upscaled::client {
namespace {

// Wide images take wide bands: four rows of tiles, 30,000 pixels long.
constexpr size_t kBandBudgetBytes = size_t{1} << 30;

// The image's bytes for the decoder, with their count.
class SourceBytes final : public ByteSource {
 public:
  SourceBytes(ImageSource& source, ImageObserver& observer, std::stop_token stop)
      : source_(source), observer_(observer), stop_(std::move(stop)) {}

  absl::StatusOr<size_t> Read(std::span<uint8_t> dst) override {
    ASSIGN_OR_RETURN(const size_t count,
                     source_.Read({reinterpret_cast<char*>(dst.data()), dst.size()}, stop_));
    bytes_ += static_cast<int64_t>(count);
    observer_.OnSent(bytes_);
    return count;
  }
  int64_t bytes() const { return bytes_; }

 private:
  ImageSource& source_;
  ImageObserver& observer_;
  const std::stop_token stop_;
  int64_t bytes_ = 0;
};

class SinkBytes final : public ByteSink {
 public:
  explicit SinkBytes(ImageSink& sink) : sink_(sink) {}
  absl::Status Write(std::span<const uint8_t> bytes) override {
    return sink_.Write({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }

 private:
  ImageSink& sink_;
};

// One image. Used once.
class SpreadImage {
 public:
  SpreadImage(UpscaleClient& client, const SpreadOptions& options, const ImageRequest& request,
              ImageObserver& observer, std::stop_token stop)
      : client_(client),
        options_(options),
        request_(request),
        observer_(observer),
        stop_(std::move(stop)),
        deadline_(absl::Now() + options.timeout) {}

  absl::StatusOr<ImageResult> Run(ImageSource& source, ImageSink& sink) {
    ASSIGN_OR_RETURN(asked_, ReadOptions(request_.options));
    ASSIGN_OR_RETURN(const v1::ListModelsResponse models, client_.ListModels(stop_));
    ASSIGN_OR_RETURN(model_, FindModel(models, request_.options.model()));
    ASSIGN_OR_RETURN(const v1::GetServerInfoResponse server, client_.ServerInfo(stop_));
    max_tile_pixels_ = server.limits().max_tile_pixels();

    SourceBytes input(source, observer_, stop_);
    SinkBytes output(sink);
    const std::unique_ptr<TileExecutor> executor = MakeExecutor();
    TranscodeRequest request{.input = input,
                             .output = output,
                             .executor = *executor,
                             .cancellation = &cancellation_,
                             .limits = DecodeLimitsFor(asked_)};
    request.progress.on_tile = [this](int64_t done, int64_t total) { OnTile(done, total); };
    const absl::Time start = absl::Now();
    ASSIGN_OR_RETURN(
        const TranscodeStats stats,
        TranscodeImage(request, [this](const ImageHeader& header) { return Plan(header); }));
    result_.source_bytes = input.bytes();
    result_.attempts = 1;
    v1::UpscaleSummary& summary = result_.summary;
    summary.set_result_bytes(stats.result_bytes);
    summary.set_tiles(result_.header.tiles());
    summary.set_device("several servers");
    for (const std::string& warning : stats.warnings) summary.add_warnings(warning);
    *summary.mutable_timings()->mutable_total() = server::ToProto(absl::Now() - start);
    *summary.mutable_timings()->mutable_decode() = server::ToProto(stats.decode);
    *summary.mutable_timings()->mutable_infer() = server::ToProto(stats.infer);
    *summary.mutable_timings()->mutable_encode() = server::ToProto(stats.encode);
    return std::move(result_);
  }

 private:
  std::unique_ptr<TileExecutor> MakeExecutor() {
    std::vector<std::unique_ptr<Stream>> streams;
    for (int i = 0; i < options_.calls; ++i) {
      streams.push_back(std::make_unique<RemoteStream>(client_, deadline_, stop_));
    }
    return MakeLocalExecutor(std::move(streams));
  }

  absl::StatusOr<TranscodePlan> Plan(const ImageHeader& header) {
    ASSIGN_OR_RETURN(SpreadPlan plan, PlanSpread(asked_, model_, header));
    plan.upscale.concurrency = options_.calls;
    std::vector<std::shared_ptr<const Executable>> networks;
    for (const ModelVariant& pass : plan.passes) {
      ASSIGN_OR_RETURN(networks.emplace_back(), Open(pass));
    }
    ImageSpec part = header.spec;
    part.width_px = plan.part.width;
    part.height_px = plan.part.height;
    ASSIGN_OR_RETURN(UpscalePlan upscale, PlanUpscale(part, plan.result, std::move(networks),
                                                      plan.upscale, kBandBudgetBytes));
    ASSIGN_OR_RETURN(TranscodePlan transcode,
                     PlanTranscode(header, plan.part, std::move(upscale), plan.encode));
    transcode.warnings.insert(transcode.warnings.end(), plan.warnings.begin(), plan.warnings.end());
    Announce(transcode, plan.noise_level);
    return transcode;
  }

  absl::StatusOr<std::shared_ptr<const RemoteNetwork>> Open(const ModelVariant& pass) {
    v1::UpscaleTilesStart start;
    start.set_model(model_.name());
    start.set_noise_level(pass.noise_level);
    start.set_scale(pass.scale);
    start.set_precision(asked_.precision.has_value() ? server::ToProto(*asked_.precision)
                                                     : model_.default_precision());
    start.set_request_id(request_.request_id);
    return RemoteNetwork::Open(client_, std::move(start), max_tile_pixels_,
                               options_.max_message_bytes, stop_);
  }

  void Announce(const TranscodePlan& plan, int noise_level) {
    const ImageSpec &source = plan.crop.source, &encoded = plan.convert.result;
    v1::UpscaleImageHeader& header = result_.header;
    header.set_request_id(request_.request_id);
    header.set_source_width_px(source.width_px);
    header.set_source_height_px(source.height_px);
    header.set_result_width_px(encoded.width_px);
    header.set_result_height_px(encoded.height_px);
    header.set_format(server::ToProto(plan.encode.format));
    header.set_bits_per_sample(static_cast<int>(8 * SampleBytes(encoded.type)));
    header.set_channels(encoded.channels);
    header.set_model(model_.name());
    if (noise_level != kNoDenoise) header.set_noise_level(noise_level);
    header.set_frames(plan.frames());
    header.set_tiles(plan.upscale.tile_count);
    for (const std::string& warning : plan.warnings) header.add_warnings(warning);
    observer_.OnHeader(header);
  }

  // On any thread, and not in order.
  void OnTile(int64_t done, int64_t total) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (done <= tiles_done_) return;
    tiles_done_ = done;
    v1::UpscaleProgress progress;
    progress.set_tiles_done(done);
    progress.set_tiles(total);
    observer_.OnProgress(progress);
  }

  UpscaleClient& client_;
  const SpreadOptions& options_;
  const ImageRequest& request_;
  ImageObserver& observer_;
  const std::stop_token stop_;
  const absl::Time deadline_;
  server::RequestOptions asked_;
  v1::Model model_;
  int64_t max_tile_pixels_ = 0;
  ImageResult result_;
  absl::Mutex mutex_;
  int64_t tiles_done_ ABSL_GUARDED_BY(mutex_) = 0;
  Cancellation cancellation_;
  std::stop_callback<std::function<void()>> on_stop_{
      stop_, [this] { cancellation_.Cancel(absl::CancelledError("cancelled")); }};
};

}  // namespace

absl::StatusOr<ImageResult> SpreadClient::UpscaleImage(const ImageRequest& request,
                                                       ImageSource& source, ImageSink& sink,
                                                       ImageObserver& observer,
                                                       std::stop_token stop) {
  if (!request.source_url.empty()) {
    return absl::InvalidArgumentError("images of URLs are fetched by one server, and not spread");
  }
  if (request.name_only) {
    return absl::InvalidArgumentError("results of several servers have no names");
  }
  return SpreadImage(*client_, options_, request, observer, std::move(stop)).Run(source, sink);
}

}  // namespace upscaled::client
