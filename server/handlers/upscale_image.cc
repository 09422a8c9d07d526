#include "server/handlers/upscale_image.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/file_end.h"
#include "engine/image/memory_io.h"
#include "engine/image/replay_source.h"
#include "server/base/error.h"
#include "server/handlers/chunk_streams.h"
#include "server/handlers/compute_and_store.h"
#include "server/handlers/deadline_check.h"
#include "server/handlers/held_source.h"
#include "server/handlers/image_request.h"
#include "server/handlers/resolve_job.h"
#include "server/handlers/result_headers.h"
#include "server/handlers/result_sharing.h"
#include "server/handlers/shared_computation.h"
#include "server/options/contract_values.h"
#include "server/options/request_options.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;

// A unary result may have this many times the bytes of the largest unary source.
constexpr int64_t kUnaryGrowth = 4;

// A result in one message, so it must not grow without bound.
class MessageSink final : public ByteSink {
 public:
  MessageSink(std::string& bytes, int64_t max_bytes) : bytes_(bytes), max_bytes_(max_bytes) {}

  absl::Status Write(std::span<const uint8_t> bytes) override {
    const auto size = static_cast<int64_t>(bytes_.size() + bytes.size());
    if (size > max_bytes_) return ResultTooLong(max_bytes_);
    bytes_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return absl::OkStatus();
  }

 private:
  std::string& bytes_;
  const int64_t max_bytes_;
};

absl::Status CheckUnarySource(const Limits& limits, int64_t bytes) {
  if (CheckUnaryBytes(limits, bytes).ok()) return absl::OkStatus();
  return LimitExceeded(
      absl::StrCat("the image in a unary call has ", bytes, " bytes, more than the limit of ",
                   limits.max_unary_bytes,
                   "; UpscaleImage takes larger ones, in chunks behind a message with the options"),
      bytes, limits.max_unary_bytes, "max-unary-bytes");
}

absl::StatusOr<pb::UpscaleImageStart> ReadStart(MessageReader<pb::UpscaleImageRequest>& reader) {
  pb::UpscaleImageRequest request;
  ASSIGN_OR_RETURN(const bool any, reader.Read(request));
  if (!any || !request.has_start()) {
    return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidOption,
                     any ? "the first message must hold the options"
                         : "the call ended without a message; the first must hold the options");
  }
  return std::move(*request.mutable_start());
}

absl::Status CheckTotalBytes(const pb::UpscaleImageStart& start, const Limits& limits) {
  if (start.total_bytes() >= 0) return CheckSourceBytes(limits, start.total_bytes());
  return MakeError(
      absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidOption,
      absl::StrCat("total_bytes is ", start.total_bytes(), "; it must not be negative"));
}

absl::StatusOr<std::optional<Digest>> DigestFromProto(const pb::UpscaleImageStart& start) {
  if (start.source_sha256().empty()) return std::nullopt;
  const std::optional<Digest> digest = DigestFromBytes(start.source_sha256());
  if (digest.has_value()) return digest;
  return MakeError(
      absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidOption,
      absl::StrCat("source_sha256 has ", start.source_sha256().size(), " bytes; it must have 32"),
      {{"field", "source_sha256"}});
}

absl::Status CheckKnownEtags(const pb::UpscaleImageStart& start) {
  constexpr int kMaxKnownEtags = 16;
  if (start.known_etags_size() <= kMaxKnownEtags) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidOption,
                   absl::StrCat("known_etags has ", start.known_etags_size(),
                                " entries; it must have at most ", kMaxKnownEtags),
                   {{"field", "known_etags"}});
}

absl::Status CheckNameOnly(const pb::UpscaleImageStart& start) {
  if (!start.name_only() || !start.source_sha256().empty()) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidOption,
                   "name_only needs source_sha256, which the name follows from",
                   {{"field", "source_sha256"}});
}

absl::StatusOr<pb::UpscaleSummary> NothingStored(const Digest& digest) {
  return MakeError(
      absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidImage,
      absl::StrCat("the image is not sent, and no result of the image with the SHA-256 ",
                   ToHex(digest), " is stored for this caller and these options"));
}

absl::Status SendHeader(MessageWriter<pb::UpscaleImageResponse>& writer,
                        const pb::UpscaleImageHeader& header) {
  pb::UpscaleImageResponse response;
  *response.mutable_header() = header;
  return writer.Write(std::move(response));
}

void SendProgress(MessageWriter<pb::UpscaleImageResponse>& writer, int64_t done, int64_t total) {
  pb::UpscaleImageResponse response;
  response.mutable_progress()->set_tiles_done(done);
  response.mutable_progress()->set_tiles(total);
  writer.SendIfIdle(std::move(response));
}

constexpr size_t kStoredChunkBytes = size_t{128} << 10;

// The bytes a flight keeps, fewer for small results: no format is much larger than the pixels.
size_t KeptBytes(const ResolvedJob& resolved) {
  constexpr int64_t kMaxPixelBytes = 8, kSlackBytes = 64 << 10;
  const int64_t bytes = resolved.result.Area() * kMaxPixelBytes + kSlackBytes;
  return std::min(Flight::kKeptBytes, static_cast<size_t>(bytes));
}

// Whether another call's computation failed for a reason outside the request.
bool MayTryAgain(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsUnavailable(status) ||
         absl::IsAborted(status) || absl::IsCancelled(status);
}

// Serves a request from the result store, from a computation in progress, or from a new one that
// later requests may join.
class ImageCall {
 public:
  ImageCall(const HandlerEnvironment& environment, const CallContext& context, ImageRequest request,
            const ImageStreams& streams)
      : environment_(environment),
        sharing_(*environment.sharing),
        context_(context),
        request_(std::move(request)),
        streams_(streams) {}

  absl::StatusOr<pb::UpscaleSummary> Run() {
    context_.record.model = request_.models.name();
    HeldSource held(streams_.input, request_.input_bytes);

    // A client without bytes asks for a stored result of the source it names.
    if (request_.claimed_digest.has_value() && !request_.name_only) {
      ASSIGN_OR_RETURN(const bool unsent, held.IsEmpty());
      if (unsent) {
        const Digest& digest = *request_.claimed_digest;
        ASSIGN_OR_RETURN(const bool known, MayFindSource() ? FindSource(digest) : false);
        return known ? Summary() : NothingStored(digest);
      }
    }

    // The header of the source settles sizes, format and networks.
    RETURN_IF_ERROR(
        ReadSourceHeader(environment_, context_, held, streams_.buffer_bytes, request_));
    if (request_.name_only) return TellName();

    // The bytes of the source settle the name of the result. Without a name it is computed here and
    // now: the source is large, memory is short, or the files of a model change.
    ASSIGN_OR_RETURN(const bool whole, Receive(held));
    if (!whole) return ComputeAlone(held);
    const auto source_bytes = static_cast<int64_t>(held.bytes().size());
    const Digest digest = DigestOf(held.bytes());
    RETURN_IF_ERROR(CheckClaimedDigest(request_.claimed_digest, digest));
    FileEnd end;
    end.Pass(held.bytes());
    behind_ = end.Warning();
    if (!NameSource(digest)) return ComputeAlone(held);

    // A result of the client or the store is not computed again. Any other is computed for all its
    // callers.
    ASSIGN_OR_RETURN(const bool known, AnswerAtOnce());
    if (known) return Summary();
    RETURN_IF_ERROR(CheckResultFits(source_bytes));
    return Share(held.TakeBytes());
  }

 private:
  const std::string& tenant() const { return context_.payer.tenant; }

  // --- The source ---

  // Sets the common key of equal requests. false: the files of a model change.
  bool NameSource(const Digest& digest) {
    request_.source_digest = digest;
    const absl::StatusOr<Digest> key =
        sharing_.KeyOf(tenant(), digest, request_.options, request_.resolved);
    if (key.ok()) request_.key = *key;
    return key.ok();
  }

  // false: it is too large to be held, or memory is short.
  absl::StatusOr<bool> Receive(HeldSource& held) {
    if (request_.input_bytes > sharing_.max_held_bytes()) return false;
    const auto buffer_bytes = static_cast<int64_t>(streams_.buffer_bytes);
    RETURN_IF_ERROR(ReserveMemory(environment_, context_, buffer_bytes));
    return held.ReadAll(sharing_.max_held_bytes(), [&](int64_t bytes) {
      return context_.reservation.TryHold(buffer_bytes + bytes);
    });
  }

  // Computes the source as it arrives.
  absl::StatusOr<pb::UpscaleSummary> ComputeAlone(HeldSource& held) {
    RETURN_IF_ERROR(CheckResultFits(request_.input_bytes));
    ++sharing_.counts().computed;
    std::vector<uint8_t> prefix = held.TakeBytes();
    const size_t prefix_bytes = prefix.size();
    ReplaySource input(std::move(prefix), streams_.input);
    return ComputeAndStore(environment_, context_, request_,
                           {.input = input,
                            .output = streams_.output,
                            .buffer_bytes = streams_.buffer_bytes + prefix_bytes,
                            .on_header = streams_.on_header,
                            .on_progress = streams_.on_progress});
  }

  // Without keys, a digest would be enough to get results of others' images.
  bool MayFindSource() const {
    return !tenant().empty() && sharing_.store() != nullptr && request_.options.frame <= 1;
  }

  // A result too large to fit is not computed.
  absl::Status CheckResultFits(int64_t source_bytes) const {
    const int64_t least = LeastResultBytes(request_.source.spec, source_bytes, request_.resolved);
    const int64_t most = request_.max_result_bytes;
    return most == 0 || least <= most ? absl::OkStatus() : ResultTooLong(most, least);
  }

  // A stored result of the client's announced source.
  absl::StatusOr<bool> FindSource(const Digest& digest) {
    const std::optional<std::string> stored = sharing_.store()->FindSource(digest, tenant());
    if (!stored.has_value()) return false;
    std::optional<ImageHeader> source = SourceFromText(*stored);
    if (!source.has_value()) return false;
    ASSIGN_OR_RETURN(request_.resolved,
                     ResolveJob(environment_, request_.options, request_.models, *source));
    request_.source = *std::move(source);
    if (!NameSource(digest)) return false;
    return AnswerAtOnce();
  }

  // --- Results that are there ---

  // The first of the result's possible names.
  absl::StatusOr<pb::UpscaleSummary> TellName() {
    std::string name;
    if (NameSource(*request_.claimed_digest)) {
      if (const std::vector<std::string> names = Names(); !names.empty()) name = names.front();
    }
    pb::UpscaleImageHeader header = HeaderOf(request_, name);
    header.set_not_modified(false);
    RETURN_IF_ERROR(Announce(std::move(header)));
    summary_.set_etag(name);
    return Summary();
  }

  // false: the result is neither stored nor the client's.
  absl::StatusOr<bool> AnswerAtOnce() {
    for (const std::string& name : Names()) {
      if (!std::ranges::count(request_.known_results, name)) continue;
      Count(sharing_.counts().unmodified);
      RETURN_IF_ERROR(Announce(HeaderOf(request_, name)));
      summary_.set_etag(name);
      return true;
    }
    const std::optional<ResultStore::Found> found = FindStored();
    if (!found.has_value()) return false;
    RETURN_IF_ERROR(SendStored(*found));
    return true;
  }

  std::vector<std::string> Names() const {
    return sharing_.NamesOf(*request_.key, request_.resolved, environment_.quarantine);
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
      RETURN_IF_ERROR(streams_.output.Write(std::span(chunk).first(count)));
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
    RETURN_IF_ERROR(
        ReserveMemory(environment_, context_, static_cast<int64_t>(streams_.buffer_bytes)));
    while (true) {
      InFlight::Place place = sharing_.in_flight().JoinOrStart(*request_.key, context_.cancellation,
                                                               source, context_.payer, position_);
      source = place.flight->source();  // one copy for all
      if (place.started) {
        // Other calls may wait already: this one must compute for them or say it does not.
        absl::Cleanup abandon = [&] { Abandon(*place.flight); };
        // The result may have been stored since it was looked for.
        if (const auto found = FindStored()) {
          std::move(abandon).Invoke();
          RETURN_IF_ERROR(SendStored(*found));
          return Summary();
        }
        auto record = std::make_shared<RequestRecord>();
        record->request_id = context_.record.request_id;
        StartComputation({.environment = environment_,
                          .flight = place.flight,
                          .request = request_,
                          .kept_bytes = KeptBytes(request_.resolved),
                          .start = context_.start,
                          .payer = context_.payer,
                          .deadline = context_.deadline,
                          .record = std::move(record)});
        std::move(abandon).Cancel();
      }
      Count(place.started ? sharing_.counts().computed : sharing_.counts().shared);
      absl::Cleanup pay = [&] { Pay(place.waiter->Leave()); };
      const absl::StatusOr<Delivery> delivery = Deliver(*place.waiter, place.started);
      std::move(pay).Invoke();
      if (!delivery.ok()) return delivery.status();
      if (delivery->left_behind) continue;  // once more, on from where the client is
      const absl::StatusOr<pb::UpscaleSummary>& end = delivery->end;
      if (end.ok()) return Summary(*end);
      if (place.started || !MayTryAgain(end.status())) return end.status();
    }
  }

  void Abandon(Flight& flight) {
    sharing_.in_flight().Remove(*request_.key, flight);
    flight.Finish(absl::AbortedError("not to be computed here"));
  }

  struct Delivery {
    bool left_behind = false;
    absl::StatusOr<pb::UpscaleSummary> end = absl::UnknownError("not ended");  // of the flight
  };

  // All of the flight's data. Errors are the client's own. `from_start`: the call began it.
  absl::StatusOr<Delivery> Deliver(Flight::Waiter& waiter, bool from_start) {
    while (true) {
      ASSIGN_OR_RETURN(Flight::News news, waiter.Await());
      if (news.header.has_value()) {
        // A call with a begun result is judged no more.
        if (!from_start && !announced_.has_value()) {
          RETURN_IF_ERROR(CheckTime(news.forecast_end, *news.header));
        }
        RETURN_IF_ERROR(Announce(*std::move(news.header)));
      }
      if (news.progress.has_value() && streams_.on_progress) {
        streams_.on_progress(news.progress->done, news.progress->total);
      }
      if (news.block != nullptr) {
        RETURN_IF_ERROR(streams_.output.Write(AsBytes(news.bytes)));
        position_ += static_cast<int64_t>(news.bytes.size());
      }
      if (news.left_behind) return Delivery{.left_behind = true};
      if (news.end.has_value()) return Delivery{.end = *std::move(news.end)};
    }
  }

  // Whether a running computation can end before the call's deadline, and its time from now on.
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

  // This call's part of a computation.
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

  // The header, once; a flight in place of another one must be of the same result.
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
    header.set_model(request_.models.name());  // weights may have several names
    if (!behind_.empty()) header.add_warnings(behind_);
    return streams_.on_header(header);
  }

  pb::UpscaleSummary Summary() { return Summary(summary_); }
  pb::UpscaleSummary Summary(pb::UpscaleSummary summary) {
    context_.record.sent_bytes = position_;
    *summary.mutable_timings()->mutable_total() =
        ToProto(environment_.clock.Now() - context_.start);
    return summary;
  }

  const HandlerEnvironment& environment_;
  ResultSharing& sharing_;
  const CallContext& context_;
  ImageRequest request_;
  const ImageStreams& streams_;
  bool counted_ = false;
  std::string behind_;                    // FileEnd::Warning
  int64_t position_ = 0;                  // bytes that the client has
  std::optional<std::string> announced_;  // the name
  pb::UpscaleSummary summary_;            // of a result that is not computed
};

}  // namespace

absl::StatusOr<pb::UpscaleSummary> UpscaleImage(const HandlerEnvironment& environment,
                                                const CallContext& context, ImageRequest request,
                                                const ImageStreams& streams) {
  return ImageCall(environment, context, std::move(request), streams).Run();
}

absl::Status HandleUpscaleImage(const HandlerEnvironment& environment, CallContext context,
                                MessageReader<pb::UpscaleImageRequest>& reader,
                                MessageWriter<pb::UpscaleImageResponse>& writer) {
  ASSIGN_OR_RETURN(const pb::UpscaleImageStart start, ReadStart(reader));
  ASSIGN_OR_RETURN(context.record.request_id, ChooseRequestId(start.request_id()));
  ASSIGN_OR_RETURN(RequestOptions options, FromProto(start.options()));
  RETURN_IF_ERROR(CheckTotalBytes(start, environment.admission.limits()));
  ASSIGN_OR_RETURN(const std::optional<Digest> claimed_digest, DigestFromProto(start));
  RETURN_IF_ERROR(CheckKnownEtags(start));
  RETURN_IF_ERROR(CheckNameOnly(start));

  ChunkSource source(reader, environment.admission, context);
  ChunkSink sink(writer);
  ImageStreams streams{.input = source,
                       .output = sink,
                       .on_header = [&writer](const pb::UpscaleImageHeader& header) {
                         return SendHeader(writer, header);
                       }};
  if (start.report_progress()) {
    streams.on_progress = [&writer](int64_t done, int64_t total) {
      SendProgress(writer, done, total);
    };
  }
  ASSIGN_OR_RETURN(ImageRequest request, StartRequest(environment, std::move(options)));
  request.input_bytes = start.total_bytes();
  request.claimed_digest = claimed_digest;
  request.known_results = {start.known_etags().begin(), start.known_etags().end()};
  request.name_only = start.name_only();
  ASSIGN_OR_RETURN(pb::UpscaleSummary summary,
                   UpscaleImage(environment, context, std::move(request), streams));
  RETURN_IF_ERROR(sink.Flush());
  pb::UpscaleImageResponse last;
  *last.mutable_summary() = std::move(summary);
  return writer.Write(std::move(last));
}

absl::Status HandleUpscale(const HandlerEnvironment& environment, CallContext context,
                           const pb::UpscaleRequest& request, pb::UpscaleResponse& response) {
  ASSIGN_OR_RETURN(context.record.request_id, ChooseRequestId(request.request_id()));
  ASSIGN_OR_RETURN(RequestOptions options, FromProto(request.options()));
  const auto image_bytes = static_cast<int64_t>(request.image().size());
  context.record.received_bytes = image_bytes;
  environment.admission.Receive(context.payer, image_bytes).IgnoreError();
  RETURN_IF_ERROR(CheckUnarySource(environment.admission.limits(), image_bytes));

  MemorySource source(request.image());
  const int64_t max_result_bytes = kUnaryGrowth * environment.admission.limits().max_unary_bytes;
  MessageSink sink(*response.mutable_image(), max_result_bytes);
  const ImageStreams streams{
      .input = source,
      .output = sink,
      // The answer and the transport's copy of it, until the copy has left.
      .buffer_bytes = static_cast<size_t>(image_bytes + 2 * max_result_bytes),
      .on_header = [&response](const pb::UpscaleImageHeader& header) {
        *response.mutable_header() = header;
        return absl::OkStatus();
      }};
  ASSIGN_OR_RETURN(ImageRequest image, StartRequest(environment, std::move(options)));
  image.max_result_bytes = max_result_bytes;
  image.input_bytes = image_bytes;
  ASSIGN_OR_RETURN(*response.mutable_summary(),
                   UpscaleImage(environment, context, std::move(image), streams));
  return absl::OkStatus();
}

}  // namespace upscaled::server
