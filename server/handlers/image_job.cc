#include "server/handlers/image_job.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "engine/base/status_macros.h"
#include "engine/image/file_end.h"
#include "engine/image/memory_io.h"
#include "server/base/error.h"
#include "server/handlers/convert.h"
#include "server/handlers/deadline_check.h"
#include "server/handlers/engine_limits.h"
#include "server/handlers/flight_computation.h"
#include "server/handlers/held_source.h"
#include "server/handlers/resolve_job.h"
#include "server/handlers/result_headers.h"
#include "server/handlers/result_sharing.h"
#include "server/handlers/streamed_image.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;

constexpr size_t kStoredChunkBytes = size_t{128} << 10;

// The bytes that a flight keeps, fewer for small results: no format is much larger than the pixels.
size_t KeptBytes(const ResolvedJob& resolved) {
  constexpr int64_t kMaxPixelBytes = 8, kSlackBytes = 64 << 10;
  const int64_t bytes = resolved.result.Area() * kMaxPixelBytes + kSlackBytes;
  return std::min(Flight::kKeptBytes, static_cast<size_t>(bytes));
}

// Whether another call's computation failed for a reason that does not lie in the request.
bool MayTryAgain(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsUnavailable(status) ||
         absl::IsAborted(status) || absl::IsCancelled(status);
}

// Serves a job from the result store, from a computation in progress, or from a new one that later
// requests may join.
class ImageJobRun {
 public:
  ImageJobRun(const HandlerEnvironment& environment, const CallContext& context,
              const ImageJob& job, ModelChain models)
      : environment_(environment),
        sharing_(*environment.sharing),
        context_(context),
        job_(job),
        models_(std::move(models)) {}

  absl::StatusOr<pb::UpscaleSummary> Run() {
    HeldSource held(job_.input, job_.input_bytes);
    if (MayFindSource()) {
      ASSIGN_OR_RETURN(const bool unsent, held.IsEmpty());
      ASSIGN_OR_RETURN(const bool known, unsent ? FindSource(*job_.source_digest) : false);
      if (known) return Summary();
    }
    const absl::StatusOr<ImageHeader> header =
        held.ReadHeader(ToDecodeLimits(environment_.admission.limits(), job_.options,
                                       /*is_caged=*/environment_.open_image != nullptr),
                        [this](int64_t bytes) {
                          return ReserveMemory(static_cast<int64_t>(job_.buffer_bytes) + bytes);
                        });
    if (!header.ok()) return ExplainEngineError(header.status());
    ASSIGN_OR_RETURN(resolved_, ResolveJob(environment_, job_.options, models_, *header));
    source_ = *header;
    if (job_.name_only) return TellName();
    ASSIGN_OR_RETURN(const bool whole, Receive(held));
    if (!whole) return Stream(held);
    source_bytes_ = static_cast<int64_t>(held.bytes().size());
    source_digest_ = DigestOf(held.bytes());
    RETURN_IF_ERROR(CheckSourceDigest(job_, source_digest_));
    FileEnd end;
    end.Pass(held.bytes());
    behind_ = end.Warning();
    const absl::StatusOr<Digest> key = Key();
    if (!key.ok()) return Stream(held);  // a model whose files change: nothing can be named
    key_ = *key;
    ASSIGN_OR_RETURN(const bool known, AnswerAtOnce());
    if (known) return Summary();
    RETURN_IF_ERROR(CheckResultFits());
    return Share(held.TakeBytes());
  }

 private:
  const std::string& tenant() const { return context_.payer.tenant; }

  // --- The source ---

  absl::StatusOr<Digest> Key() {
    return sharing_.KeyOf(tenant(), source_digest_, job_.options, resolved_);
  }

  // Reserves memory only: it is not known yet whether anything has to be computed.
  absl::Status ReserveMemory(int64_t bytes) {
    const ResourceRequest resources{.memory_bytes = bytes, .payer = context_.payer};
    if (context_.reservation.holds()) return context_.reservation.Change(resources);
    ASSIGN_OR_RETURN(context_.reservation, environment_.admission.Reserve(resources));
    return absl::OkStatus();
  }

  // false: it is too large for that, or memory is short.
  absl::StatusOr<bool> Receive(HeldSource& held) {
    if (job_.input_bytes > sharing_.max_held_bytes()) return false;
    const auto buffer_bytes = static_cast<int64_t>(job_.buffer_bytes);
    RETURN_IF_ERROR(ReserveMemory(buffer_bytes));
    return held.ReadAll(sharing_.max_held_bytes(), [&](int64_t bytes) {
      return context_.reservation.TryHold(buffer_bytes + bytes);
    });
  }

  absl::StatusOr<pb::UpscaleSummary> Stream(HeldSource& held) {
    source_bytes_ = job_.input_bytes;
    RETURN_IF_ERROR(CheckResultFits());
    return StreamImage(environment_, context_,
                       {.job = job_,
                        .models = models_,
                        .resolved = resolved_,
                        .prefix = held.TakeBytes(),
                        .source_header = SourceToText(source_)});
  }

  // Without keys, a digest would be enough to get results of images that others have sent.
  bool MayFindSource() const {
    return job_.source_digest.has_value() && !job_.name_only && !tenant().empty() &&
           sharing_.store() != nullptr && job_.options.frame <= 1;
  }

  // A result that cannot fit is not computed.
  absl::Status CheckResultFits() const {
    const int64_t least = LeastResultBytes(source_.spec, source_bytes_, resolved_);
    if (job_.max_result_bytes == 0 || least <= job_.max_result_bytes) return absl::OkStatus();
    return ResultTooLong(job_.max_result_bytes, least);
  }

  // A stored result of the source that the client says it has.
  absl::StatusOr<bool> FindSource(const Digest& digest) {
    const std::optional<std::string> stored = sharing_.store()->FindSource(digest, tenant());
    if (!stored.has_value()) return false;
    const std::optional<ImageHeader> source = SourceFromText(*stored);
    if (!source.has_value()) return false;
    source_ = *source;
    ASSIGN_OR_RETURN(resolved_, ResolveJob(environment_, job_.options, models_, source_));
    source_digest_ = digest;
    const absl::StatusOr<Digest> key = Key();
    if (!key.ok()) return false;
    key_ = *key;
    return AnswerAtOnce();
  }

  // --- Results that are there ---

  // The first of the names that the result may get.
  absl::StatusOr<pb::UpscaleSummary> TellName() {
    source_digest_ = *job_.source_digest;
    std::string name;
    if (const absl::StatusOr<Digest> key = Key(); key.ok()) {
      key_ = *key;
      if (const std::vector<std::string> names = Names(); !names.empty()) name = names.front();
    }
    pb::UpscaleImageHeader header = HeaderOf(source_.spec, resolved_, models_.name(), name);
    header.set_not_modified(false);
    RETURN_IF_ERROR(Announce(std::move(header)));
    summary_.set_etag(name);
    return Summary();
  }

  // false: the result is neither stored nor the client's.
  absl::StatusOr<bool> AnswerAtOnce() {
    for (const std::string& name : Names()) {
      if (!std::ranges::count(job_.known_results, name)) continue;
      Count(sharing_.counts().unmodified);
      RETURN_IF_ERROR(Announce(HeaderOf(source_.spec, resolved_, models_.name(), name)));
      summary_.set_etag(name);
      return true;
    }
    const std::optional<ResultStore::Found> found = FindStored();
    if (!found.has_value()) return false;
    RETURN_IF_ERROR(SendStored(*found));
    return true;
  }

  std::vector<std::string> Names() const {
    return sharing_.NamesOf(key_, resolved_, environment_.quarantine);
  }

  std::optional<ResultStore::Found> FindStored() {
    if (sharing_.store() == nullptr) return std::nullopt;
    for (const std::string& name : Names()) {
      if (auto found = sharing_.store()->Find(name, tenant())) return found;
    }
    return std::nullopt;
  }

  absl::Status SendStored(const ResultStore::Found& found) {
    Count(sharing_.counts().stored);
    pb::UpscaleImageHeader header;
    if (!header.ParseFromString(found.result.header)) {
      return absl::InternalError("a stored result has no header");
    }
    header.set_tiles(0);
    header.set_cached(true);
    RETURN_IF_ERROR(Announce(std::move(header)));
    std::vector<uint8_t> chunk(kStoredChunkBytes);
    while (position_ < found.result.bytes) {
      RETURN_IF_ERROR(context_.cancellation.status());
      ASSIGN_OR_RETURN(const size_t count, found.file.ReadAt(position_, chunk));
      if (count == 0) return absl::InternalError("a stored result was cut short");
      RETURN_IF_ERROR(job_.output.Write(std::span(chunk).first(count)));
      position_ += static_cast<int64_t>(count);
    }
    summary_.set_result_bytes(found.result.bytes);
    summary_.set_etag(found.result.name);
    return absl::OkStatus();
  }

  // --- Results that are computed, for all who ask for them ---

  absl::StatusOr<pb::UpscaleSummary> Share(std::vector<uint8_t> bytes) {
    auto source = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
    // The flight pays for the source.
    RETURN_IF_ERROR(ReserveMemory(static_cast<int64_t>(job_.buffer_bytes)));
    while (true) {
      InFlight::Place place = sharing_.in_flight().JoinOrStart(key_, context_.cancellation, source,
                                                               context_.payer, position_);
      source = place.flight->source();  // one copy for all
      if (place.started) {
        // Other calls may wait already: this one must compute for them or say that it does not.
        absl::Cleanup abandon = [&] { Abandon(*place.flight); };
        // The result may have been stored since it was looked for.
        if (const auto found = FindStored()) {
          std::move(abandon).Invoke();
          RETURN_IF_ERROR(SendStored(*found));
          return Summary();
        }
        Start(place.flight);
        std::move(abandon).Cancel();
      }
      Count(place.started ? sharing_.counts().computed : sharing_.counts().shared);
      absl::Cleanup pay = [&] { Pay(place.waiter->Leave()); };
      const absl::StatusOr<Delivery> delivery = Deliver(*place.waiter, place.started);
      std::move(pay).Invoke();
      if (!delivery.ok()) return delivery.status();
      if (delivery->left_behind) continue;  // once more, on from where the client is
      const absl::StatusOr<std::string>& end = delivery->end;
      if (end.ok()) return ComputedSummary(*end);
      if (place.started || !MayTryAgain(end.status())) return end.status();
    }
  }

  void Abandon(Flight& flight) {
    sharing_.in_flight().Remove(key_, flight);
    flight.Finish(absl::AbortedError("not to be computed here"));
  }

  void Start(std::shared_ptr<Flight> flight) {
    auto record = std::make_shared<RequestRecord>();
    record->request_id = context_.record.request_id;
    StartComputation({.environment = environment_,
                      .flight = std::move(flight),
                      .key = key_,
                      .options = job_.options,
                      .models = models_,
                      .source_digest = source_digest_,
                      .source_header = SourceToText(source_),
                      .media_type = std::string(FormatMediaType(resolved_.encode.format)),
                      .kept_bytes = KeptBytes(resolved_),
                      .start = context_.start,
                      .payer = context_.payer,
                      .deadline = context_.deadline,
                      .record = std::move(record)});
  }

  struct Delivery {
    bool left_behind = false;
    absl::StatusOr<std::string> end = absl::UnknownError("not ended");  // of the flight
  };

  // All that the flight gives. Errors are the client's own. `from_start`: the call began it.
  absl::StatusOr<Delivery> Deliver(Flight::Waiter& waiter, bool from_start) {
    while (true) {
      ASSIGN_OR_RETURN(Flight::News news, waiter.Await());
      if (news.header.has_value()) {
        pb::UpscaleImageHeader header;
        if (!header.ParseFromString(*news.header)) return absl::InternalError("no header");
        // A call whose result has begun is judged no more.
        if (!from_start && !announced_.has_value()) {
          RETURN_IF_ERROR(CheckTime(news.forecast_end, header));
        }
        RETURN_IF_ERROR(Announce(std::move(header)));
      }
      if (news.progress.has_value() && job_.on_progress) {
        job_.on_progress(news.progress->done, news.progress->total);
      }
      if (news.block != nullptr) {
        RETURN_IF_ERROR(job_.output.Write(AsBytes(news.bytes)));
        position_ += static_cast<int64_t>(news.bytes.size());
      }
      if (news.left_behind) return Delivery{.left_behind = true};
      if (news.end.has_value()) return Delivery{.end = *std::move(news.end)};
    }
  }

  // Whether a computation that was begun some time ago can end before the call's deadline, and how
  // long that takes from now on.
  absl::Status CheckTime(absl::Time forecast_end, pb::UpscaleImageHeader& header) const {
    const absl::Time now = environment_.clock.Now();
    if (forecast_end <= now) {  // it is late, or nobody knows
      header.clear_estimate();
      return absl::OkStatus();
    }
    *header.mutable_estimate() = ToProto(forecast_end - now);
    context_.record.forecast = forecast_end - context_.start;
    return CheckDeadline({.ahead = forecast_end - now}, context_.deadline - now);
  }

  // The part of a computation that falls to this call.
  void Pay(const Flight::Bill& bill) {
    RequestRecord& record = context_.record;
    record.cost += bill.cost;
    if (bill.record == nullptr) return;
    const RequestRecord& computed = *bill.record;
    record.message = computed.message;
    record.device = computed.device;
    record.tiles = computed.tiles;
    record.spared_pixels = computed.spared_pixels;
    record.unchanged_pixels = computed.unchanged_pixels;
    record.queue = computed.queue;
    record.decode = computed.decode;
    record.infer = computed.infer;
    record.encode = computed.encode;
    record.stages = computed.stages;
    record.result_pixels = computed.result_pixels;
  }

  // --- The answer ---

  // Each job once, however often it tries.
  void Count(std::atomic<int64_t>& way) {
    if (!std::exchange(counted_, true)) ++way;
  }

  // The header, once; a flight that takes over for another one must be of the same result.
  absl::Status Announce(pb::UpscaleImageHeader header) {
    if (announced_.has_value()) {
      if (*announced_ == header.etag()) return absl::OkStatus();
      return MakeError(
          absl::StatusCode::kUnavailable, ErrorReason::kDeviceFailure,
          "a device of another class took over in the middle of the result; try again");
    }
    announced_ = header.etag();
    RequestRecord& record = context_.record;
    record.source = {header.source_width_px(), header.source_height_px()};
    record.result = {header.result_width_px(), header.result_height_px()};
    record.source_pixels = record.source.Area();
    if (header.has_estimate()) {
      record.forecast = environment_.clock.Now() - context_.start + FromProto(header.estimate());
    }
    header.set_request_id(record.request_id);
    header.set_model(models_.name());  // weights may have several names
    if (!behind_.empty()) header.add_warnings(behind_);
    return job_.on_header(header);
  }

  absl::StatusOr<pb::UpscaleSummary> ComputedSummary(const std::string& computed) {
    if (!summary_.ParseFromString(computed)) return absl::InternalError("no summary");
    return Summary();
  }

  pb::UpscaleSummary Summary() {
    context_.record.sent_bytes = position_;
    *summary_.mutable_timings()->mutable_total() =
        ToProto(environment_.clock.Now() - context_.start);
    return summary_;
  }

  const HandlerEnvironment& environment_;
  ResultSharing& sharing_;
  const CallContext& context_;
  const ImageJob& job_;
  const ModelChain models_;
  bool counted_ = false;
  ImageHeader source_;
  int64_t source_bytes_ = 0;
  std::string behind_;  // FileEnd::Warning
  Digest source_digest_ = {};
  ResolvedJob resolved_;
  Digest key_ = {};
  int64_t position_ = 0;                  // bytes that the client has
  std::optional<std::string> announced_;  // the name
  pb::UpscaleSummary summary_;
};

}  // namespace

absl::StatusOr<pb::UpscaleSummary> RunImageJob(const HandlerEnvironment& environment,
                                               const CallContext& context, const ImageJob& job) {
  ASSIGN_OR_RETURN(ModelChain models, environment.catalog.FindChain(job.options.model));
  context.record.model = models.name();
  return ImageJobRun(environment, context, job, std::move(models)).Run();
}

}  // namespace upscaled::server
