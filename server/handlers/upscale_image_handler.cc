#include "server/handlers/upscale_image_handler.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/memory_io.h"
#include "server/base/error.h"
#include "server/handlers/image_job.h"
#include "server/handlers/request_options.h"
#include "server/handlers/resolve_job.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;

// Encoders write a row or less at a time; messages of this size cost little each and still leave
// early.
constexpr size_t kChunkBytes = size_t{128} << 10;
// A unary result may have this many times the bytes that a unary source may have.
constexpr int64_t kUnaryGrowth = 4;

// The chunks of an upload.
class ChunkSource final : public ByteSource {
 public:
  ChunkSource(MessageReader<pb::UpscaleImageRequest>& reader, AdmissionController& admission,
              const CallContext& context)
      : reader_(reader), admission_(admission), context_(context) {}

  absl::StatusOr<size_t> Read(std::span<uint8_t> dst) override {
    while (position_ == message_.chunk().size()) {
      ASSIGN_OR_RETURN(const bool more, reader_.Read(message_));
      position_ = 0;
      if (!more) {
        message_.Clear();
        return 0;
      }
      if (!message_.has_chunk()) {
        return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidOption,
                         "only the first message may hold options; all others hold a chunk");
      }
      const auto bytes = static_cast<int64_t>(message_.chunk().size());
      context_.record.received_bytes += bytes;
      admission_.Receive(context_.payer, bytes).IgnoreError();
      RETURN_IF_ERROR(CheckSourceBytes(admission_.limits(), context_.record.received_bytes));
    }
    const size_t count = std::min(dst.size(), message_.chunk().size() - position_);
    std::memcpy(dst.data(), message_.chunk().data() + position_, count);
    position_ += count;
    return count;
  }

 private:
  MessageReader<pb::UpscaleImageRequest>& reader_;
  AdmissionController& admission_;
  const CallContext& context_;
  pb::UpscaleImageRequest message_;
  size_t position_ = 0;
};

// The chunks of a result.
class ChunkSink final : public ByteSink {
 public:
  explicit ChunkSink(MessageWriter<pb::UpscaleImageResponse>& writer) : writer_(writer) {}

  absl::Status Write(std::span<const uint8_t> bytes) override {
    while (!bytes.empty()) {
      if (chunk_.capacity() < kChunkBytes) chunk_.reserve(kChunkBytes);
      const size_t count = std::min(bytes.size(), kChunkBytes - chunk_.size());
      chunk_.append(reinterpret_cast<const char*>(bytes.data()), count);
      bytes = bytes.subspan(count);
      if (chunk_.size() == kChunkBytes) RETURN_IF_ERROR(Flush());
    }
    return absl::OkStatus();
  }

  absl::Status Flush() {
    if (chunk_.empty()) return absl::OkStatus();
    pb::UpscaleImageResponse response;
    response.set_chunk(std::exchange(chunk_, std::string()));
    return writer_.Write(std::move(response));
  }

 private:
  MessageWriter<pb::UpscaleImageResponse>& writer_;
  std::string chunk_;
};

// A result that goes into one message, and so must not grow without bound.
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
                   limits.max_unary_bytes, "; UpscaleImage takes larger ones"),
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

}  // namespace

absl::Status HandleUpscaleImage(const HandlerEnvironment& environment, CallContext context,
                                MessageReader<pb::UpscaleImageRequest>& reader,
                                MessageWriter<pb::UpscaleImageResponse>& writer) {
  ASSIGN_OR_RETURN(const pb::UpscaleImageStart start, ReadStart(reader));
  ASSIGN_OR_RETURN(context.record.request_id, ChooseRequestId(start.request_id()));
  ASSIGN_OR_RETURN(RequestOptions options, FromProto(start.options()));
  RETURN_IF_ERROR(CheckTotalBytes(start, environment.admission.limits()));
  ASSIGN_OR_RETURN(const std::optional<Digest> source_digest, DigestFromProto(start));
  RETURN_IF_ERROR(CheckKnownEtags(start));
  RETURN_IF_ERROR(CheckNameOnly(start));

  ChunkSource source(reader, environment.admission, context);
  ChunkSink sink(writer);
  ImageJob job{.options = std::move(options),
               .input = source,
               .output = sink,
               .input_bytes = start.total_bytes(),
               .source_digest = source_digest,
               .known_results = {start.known_etags().begin(), start.known_etags().end()},
               .name_only = start.name_only(),
               .on_header = [&writer](const pb::UpscaleImageHeader& header) {
                 return SendHeader(writer, header);
               }};
  if (start.report_progress()) {
    job.on_progress = [&writer](int64_t done, int64_t total) { SendProgress(writer, done, total); };
  }
  ASSIGN_OR_RETURN(pb::UpscaleSummary summary, RunImageJob(environment, context, job));
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
  const ImageJob job{.options = std::move(options),
                     .input = source,
                     .output = sink,
                     .max_result_bytes = max_result_bytes,
                     // The answer and the transport's copy of it, until that has left.
                     .buffer_bytes = static_cast<size_t>(image_bytes + 2 * max_result_bytes),
                     .input_bytes = image_bytes,
                     .on_header = [&response](const pb::UpscaleImageHeader& header) {
                       *response.mutable_header() = header;
                       return absl::OkStatus();
                     }};
  ASSIGN_OR_RETURN(*response.mutable_summary(), RunImageJob(environment, context, job));
  return absl::OkStatus();
}

}  // namespace upscaled::server
