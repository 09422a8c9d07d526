#include "server/handlers/upscale_tiles_handler.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/int_math.h"
#include "engine/base/status_macros.h"
#include "engine/pipeline/image_run.h"
#include "engine/pipeline/reach.h"
#include "server/base/error.h"
#include "server/handlers/deadline_check.h"
#include "server/handlers/result_sharing.h"
#include "server/handlers/tile_place.h"
#include "server/options/contract_values.h"
#include "server/options/request_options.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;

// Tiles of one call between their submission and their end; with this many, the next one waits.
constexpr int64_t kMaxTilesInFlight = 1024;
// The bytes of a call's tile without pixels and parts: messages, job, submission, cancellation
// callback. Resident memory grew by 4.9 KB, parts included, for each of 120,000 tiles of one pixel.
constexpr size_t kTileOverheadBytes = 4096;
// An answer's part of it until it has left: the job is kept for it.
constexpr size_t kMessageOverheadBytes = 4096;

// The wire's pixels are little endian, the engine's native.
static_assert(std::endian::native == std::endian::little);

// The variant for a call's options; `scale` 0 is the model's own.
absl::StatusOr<const ModelVariant*> FindVariant(const ModelCard& card, int scale, int noise_level) {
  if (scale == 0) scale = NativeScale(card);
  if (const ModelVariant* variant = card.Find(scale, noise_level)) return variant;
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kUnknownModel,
                   absl::StrCat("model ", card.name, " has no scale ", scale, " with noise level ",
                                noise_level, "; it has scales ", absl::StrJoin(card.Scales(), ", "),
                                " and noise levels ", absl::StrJoin(card.NoiseLevels(), ", ")));
}

// One tile of the client while it is computed.
struct TileJob {
  pb::Tile source;
  PlacedTile placed;
  pb::UpscaleTilesResponse response;
  AdmissionController::Reservation reservation;
  size_t reserved_bytes = 0;
  int64_t cost = 0;  // in multiply-adds
  Size part_size;
};

// One call. Tiles are large enough to be cut once more, into parts of the size the device likes.
class TilesRun {
 public:
  TilesRun(const HandlerEnvironment& environment, const CallContext& context,
           MessageReader<pb::UpscaleTilesRequest>& reader,
           MessageWriter<pb::UpscaleTilesResponse>& writer)
      : environment_(environment),
        context_(context),
        reader_(reader),
        writer_(writer),
        flow_(environment.scheduler.OpenFlow(context.payer)) {}

  // Running tiles refer to it, even if an exception ends the call.
  ~TilesRun() {
    tiles_cancellation_.Cancel(absl::CancelledError("the call has ended"));
    AwaitTiles();
  }

  absl::Status Run() {
    absl::Status status = Open();
    if (status.ok()) status = TakeTiles();
    if (!status.ok()) tiles_cancellation_.Cancel(status);
    AwaitTiles();
    const RequestUsage usage = flow_.usage();
    context_.record.device = absl::StrJoin(usage.devices, ", ");
    context_.record.queue = usage.queue;
    context_.record.infer = usage.infer;
    context_.record.cost = usage.cost;
    context_.record.stages.queue = usage.queuing;
    context_.record.stages.infer = usage.running;
    context_.record.stages.tiles = usage.tile_runs;
    return status;
  }

 private:
  absl::Status Open() {
    pb::UpscaleTilesRequest request;
    ASSIGN_OR_RETURN(const bool any, reader_.Read(request));
    if (!any || !request.has_start()) {
      return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidOption,
                       any ? "the first message must hold the options"
                           : "the call ended without a message; the first must hold the options");
    }
    const pb::UpscaleTilesStart& start = request.start();
    RequestRecord& record = context_.record;
    ASSIGN_OR_RETURN(record.request_id, ChooseRequestId(start.request_id()));
    ASSIGN_OR_RETURN(
        const int noise_level,
        NoiseLevelFromProto(start.has_noise_level() ? start.noise_level() : kNoDenoise));
    ASSIGN_OR_RETURN(const std::optional<Precision> precision, FromProto(start.precision()));
    ASSIGN_OR_RETURN(const std::shared_ptr<const CatalogEntry> model,
                     environment_.catalog.Find(start.model()));
    const ModelCard& card = *model->card;
    halo_px_ = model->halo_px;
    record.model = card.name;
    ASSIGN_OR_RETURN(const ModelVariant* variant, FindVariant(card, start.scale(), noise_level));
    const ModelPass pass{&card, variant};
    const Precision chosen = precision.value_or(model->default_precision);
    ASSIGN_OR_RETURN(
        DeviceChooser::Choice choice,
        environment_.chooser.Load({&pass, 1}, chosen, /*pixels=*/0, &context_.cancellation));
    RETURN_IF_ERROR(PreferComputation(start.computation(), card, *variant, chosen, choice));
    executable_ = choice.executables.front();
    flow_.Adopt(std::move(choice));
    bytes_per_part_ = ImageRun::BytesPerTile(*executable_);
    const size_t scratch_bytes = executable_->ScratchBytes(executable_->PreferredTile());
    ASSIGN_OR_RETURN(
        context_.reservation,
        environment_.admission.Reserve(
            {.scratch_bytes = static_cast<int64_t>(scratch_bytes), .payer = context_.payer}));
    return Introduce(start, card, *variant, chosen);
  }

  // Binds the call to a device class with arithmetic `wanted` ("": any), if there is one.
  absl::Status PreferComputation(const std::string& wanted, const ModelCard& card,
                                 const ModelVariant& variant, Precision precision,
                                 DeviceChooser::Choice& choice) {
    const auto parts = choice.executables.front()->parts();
    std::optional<int> device_class;  // last looked at
    for (const DeviceExecutable::Part& part : parts) {
      if (wanted.empty() || part.device->device_class() == device_class) continue;
      device_class = part.device->device_class();
      ASSIGN_OR_RETURN(const std::string name, NameComputation(card, variant, precision, part));
      if (name != wanted) continue;
      if (device_class == choice.executables.front()->device_class()) break;
      std::vector<DeviceExecutable::Part> sorted(parts.begin(), parts.end());
      std::stable_partition(sorted.begin(), sorted.end(),
                            [&](const DeviceExecutable::Part& candidate) {
                              return candidate.device->device_class() == device_class;
                            });
      choice.executables = {std::make_shared<const DeviceExecutable>(std::move(sorted))};
      choice.binding.MoveTo(*device_class);
      break;
    }
    return absl::OkStatus();
  }

  // The header, if the client wants one, and whether it gets the wanted computation.
  absl::Status Introduce(const pb::UpscaleTilesStart& start, const ModelCard& card,
                         const ModelVariant& variant, Precision precision) {
    if (!start.report_header() && start.computation().empty()) return absl::OkStatus();
    RETURN_IF_ERROR(CheckLocal(*executable_));
    ASSIGN_OR_RETURN(const int device_class, flow_.KeepClass());
    if (!start.computation().empty() && device_class != executable_->device_class()) {
      return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kDeviceFailure,
                       "the device that gives the wanted computation has failed");
    }
    pb::UpscaleTilesResponse response;
    pb::UpscaleTilesHeader& header = *response.mutable_header();
    constexpr Size kLarge{kMaxWholeImagePx + 1, kMaxWholeImagePx + 1};
    // A network without tiles of larger images needs nothing around one.
    if (executable_->ComputesTiles(kLarge)) {
      header.set_reach_px(ReachOf(*executable_, kLarge).halo_px());
    }
    if (executable_->ComputesWhole({1, 1})) header.set_whole_px(kMaxWholeImagePx);
    ASSIGN_OR_RETURN(*header.mutable_computation(),
                     NameComputation(card, variant, precision, executable_->PartOf(device_class)));
    if (!start.computation().empty() && start.computation() != header.computation()) {
      return MakeError(
          absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidOption,
          absl::StrCat("computation is ", start.computation(), "; this server's is ",
                       header.computation(), ": weights, devices, tuning or version differ"));
    }
    return start.report_header() ? writer_.Write(response) : absl::OkStatus();
  }

  // UpscaleTilesHeader.computation: the name of the result of no source.
  absl::StatusOr<std::string> NameComputation(const ModelCard& card, const ModelVariant& variant,
                                              Precision precision,
                                              const DeviceExecutable::Part& part) {
    ASSIGN_OR_RETURN(const Digest key,
                     environment_.sharing->KeyOf(
                         /*tenant=*/"", Digest{}, RequestOptions{},
                         ResolvedJob{.passes = {{&card, &variant}}, .precision = precision}));
    return environment_.sharing->NameOf(key, part.device->arithmetic());
  }

  absl::Status TakeTiles() {
    pb::UpscaleTilesRequest request;
    while (true) {
      AwaitRoom();
      ASSIGN_OR_RETURN(const bool more, ReadPatiently(request));
      if (!more) return absl::OkStatus();
      if (!request.has_tile()) {
        return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidOption,
                         "only the first message may hold options; all others hold a tile");
      }
      const auto bytes = static_cast<int64_t>(request.tile().pixels().size());
      context_.record.received_bytes += bytes;
      const uint64_t id = request.tile().id();
      const absl::Status received = environment_.admission.Receive(context_.payer, bytes);
      absl::StatusOr<std::shared_ptr<TileJob>> job =
          received.ok() ? Admit(*request.mutable_tile()) : received;
      if (!job.ok()) {
        // If the first tile has no time, the whole call is refused.
        if (context_.record.source_pixels == 0 &&
            ReasonOf(job.status()) == ErrorReason::kDeadlineInfeasible) {
          return job.status();
        }
        RETURN_IF_ERROR(writer_.Write(ErrorResponse(id, job.status())));
        continue;
      }
      reader_.ReportProgress();  // a tile may be small
      RETURN_IF_ERROR(writer_.Reserve((*job)->reserved_bytes));
      Submit(*std::move(job));
    }
  }

  // A client waiting for its tiles has no reason to send more.
  absl::StatusOr<bool> ReadPatiently(pb::UpscaleTilesRequest& request) {
    while (true) {
      const bool waiting = tiles_in_flight() > 0;
      absl::StatusOr<bool> more = reader_.Read(request);
      if (more.ok() || ReasonOf(more.status()) != ErrorReason::kStalled || !waiting) return more;
    }
  }

  // A tile to compute, or why not.
  absl::StatusOr<std::shared_ptr<TileJob>> Admit(pb::Tile& tile) {
    auto job = std::make_shared<TileJob>();
    ASSIGN_OR_RETURN(job->placed, PlaceTile(tile, environment_.admission.limits(), *executable_));
    const ImageSpec& spec = job->placed.result;
    const size_t result_bytes = spec.row_bytes() * static_cast<size_t>(spec.height_px);
    const Size size = job->placed.source.size();
    const int streams = environment_.scheduler.IdleStreamCount(executable_->device_class());
    const Rect& wanted = job->placed.part.result;
    job->part_size = TileSizeFor(*executable_, job->placed.part.image,
                                 {wanted.width, wanted.height}, halo_px_, streams);
    // The result and the transport's copy of it, until the copy has left; the parts.
    const size_t bytes = kTileOverheadBytes + tile.pixels().size() + 2 * result_bytes +
                         ImageRun::Bytes(bytes_per_part_, size, job->part_size);
    job->cost = static_cast<int64_t>(ImageRun::Cost(*executable_, size, job->part_size));
    ASSIGN_OR_RETURN(job->reservation,
                     context_.reservation.ReserveMore({.memory_bytes = static_cast<int64_t>(bytes),
                                                       .cost = job->cost,
                                                       .device_class = executable_->device_class(),
                                                       .payer = context_.payer}));
    RETURN_IF_ERROR(CheckTime(*job, size));
    job->source = std::move(tile);
    job->response.set_id(job->source.id());
    pb::Tile& result = *job->response.mutable_tile();
    result.set_id(job->source.id());
    result.set_width_px(spec.width_px);
    result.set_height_px(spec.height_px);
    result.set_bits_per_sample(static_cast<int>(8 * SampleBytes(spec.type)));
    job->reserved_bytes = result_bytes + kMessageOverheadBytes;
    context_.record.source_pixels += size.Area();
    return job;
  }

  // Whether the tile can end before the call's deadline, after the earlier tiles.
  absl::Status CheckTime(const TileJob& job, Size size) const {
    if (context_.deadline == absl::InfiniteFuture()) return absl::OkStatus();
    const std::optional<Forecast> forecast =
        ForecastImage(environment_.scheduler.work(),
                      {.device_class = executable_->device_class(),
                       .priority = context_.payer.priority(),
                       .stream_speed = environment_.scheduler.StreamSpeed(*executable_),
                       .cost = job.cost,
                       .tiles = CeilDiv(size.width, job.part_size.width) *
                                CeilDiv(size.height, job.part_size.height),
                       .streams_per_tile = MostStreamsOf(*executable_, job.part_size),
                       .cost_ahead = job.reservation.CostAhead(),
                       .cost_ahead_if_lasting = job.reservation.CostAhead(/*lasts=*/true)});
    if (!forecast.has_value()) return absl::OkStatus();
    return CheckDeadline(*forecast, context_.deadline - environment_.clock.Now(), "tile");
  }

  // Counts a tile until the result is invoked, or dropped because an exception kept the tile from
  // the scheduler.
  auto CountInFlight() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::Cleanup uncount = [this] {
      absl::MutexLock lock(&mutex_);
      --in_flight_;
    };
    {
      absl::MutexLock lock(&mutex_);
      ++in_flight_;
    }
    return std::make_shared<decltype(uncount)>(std::move(uncount));
  }

  // Runs the tile, an image of its own, in parts.
  void Submit(std::shared_ptr<TileJob> job) ABSL_LOCKS_EXCLUDED(mutex_) {
    pb::Tile& result = *job->response.mutable_tile();
    result.mutable_pixels()->resize(job->reserved_bytes - kMessageOverheadBytes);
    const PlacedTile& placed = job->placed;
    const ImageView src(reinterpret_cast<const uint8_t*>(job->source.pixels().data()),
                        placed.source, static_cast<ptrdiff_t>(placed.source.row_bytes()));
    const MutableImageView dst(reinterpret_cast<uint8_t*>(result.mutable_pixels()->data()),
                               placed.result, static_cast<ptrdiff_t>(placed.result.row_bytes()));
    auto run = std::make_shared<ImageRun>(
        *executable_, CutPart(*executable_, placed.part, src, dst, job->part_size));
    ImageRun::Start(
        std::move(run),
        [this](std::vector<TileTask> parts, TileExecutor::TileDone done) {
          flow_.Submit(executable_, std::move(parts), &tiles_cancellation_, std::move(done));
        },
        [this, job, in_flight = CountInFlight()](const absl::Status& status) {
          Conclude(job, status);
          std::move(*in_flight).Invoke();
        });
  }

  // On the scheduler's threads.
  void Conclude(const std::shared_ptr<TileJob>& job, absl::Status status)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    // A tile cancelled during its run may be undefined.
    if (status.ok()) status = tiles_cancellation_.status();
    if (status.ok()) {
      job->reservation.ReportProgress(job->cost);
      const pb::Tile& result = job->response.tile();
      absl::MutexLock lock(&mutex_);
      context_.record.tiles += 1;
      context_.record.result_pixels += int64_t{result.width_px()} * result.height_px();
      context_.record.sent_bytes += static_cast<int64_t>(result.pixels().size());
    } else {
      job->reservation.Release();
      job->response = ErrorResponse(job->source.id(), status);
    }
    // The result's memory is the reservation's until it has left.
    writer_.Send(std::move(job->response), job->reserved_bytes, job);
  }

  static pb::UpscaleTilesResponse ErrorResponse(uint64_t id, const absl::Status& status) {
    pb::UpscaleTilesResponse response;
    response.set_id(id);
    pb::TileError& error = *response.mutable_error();
    error.set_code(static_cast<int>(status.code()));
    error.set_message(std::string(status.message()));
    error.set_reason(static_cast<pb::ErrorReason>(ReasonOf(status)));
    if (const std::optional<absl::Duration> delay = RetryDelayOf(status)) {
      *error.mutable_retry_delay() = ToProto(*delay);
    }
    return response;
  }

  int64_t tiles_in_flight() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return in_flight_;
  }

  void AwaitRoom() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const auto room = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return in_flight_ < kMaxTilesInFlight;
    };
    mutex_.Await(absl::Condition(&room));
  }

  void AwaitTiles() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const auto idle = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return in_flight_ == 0; };
    mutex_.Await(absl::Condition(&idle));
  }

  const HandlerEnvironment& environment_;
  const CallContext& context_;
  MessageReader<pb::UpscaleTilesRequest>& reader_;
  MessageWriter<pb::UpscaleTilesResponse>& writer_;
  RequestFlow flow_;
  std::shared_ptr<const DeviceExecutable> executable_;
  int halo_px_ = 0;
  size_t bytes_per_part_ = 0;

  Cancellation tiles_cancellation_;  // by the call's, or by an error of the call
  const Cancellation::Registration on_cancel_ = context_.cancellation.OnCancel(
      [this] { tiles_cancellation_.Cancel(context_.cancellation.status()); });

  mutable absl::Mutex mutex_;  // also guards what the record says of finished tiles
  int64_t in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

absl::Status HandleUpscaleTiles(const HandlerEnvironment& environment, CallContext context,
                                MessageReader<pb::UpscaleTilesRequest>& reader,
                                MessageWriter<pb::UpscaleTilesResponse>& writer) {
  return TilesRun(environment, context, reader, writer).Run();
}

}  // namespace upscaled::server
