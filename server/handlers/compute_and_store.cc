#include "server/handlers/compute_and_store.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/image/file_end.h"
#include "server/handlers/compute_image.h"
#include "server/handlers/result_headers.h"
#include "server/handlers/result_sharing.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;

constexpr size_t kRestBytes = size_t{64} << 10;

// A source being read, and the digest of the bytes read.
class HashingSource final : public ByteSource {
 public:
  HashingSource(ByteSource& source, const ImageRequest& request)
      : source_(source),
        total_bytes_(request.input_bytes),
        to_end_(request.claimed_digest.has_value()) {}

  absl::StatusOr<size_t> Read(std::span<uint8_t> dst) override {
    ASSIGN_OR_RETURN(const size_t count, source_.Read(dst));
    hash_.Update(dst.first(count));
    end_.Pass(dst.first(count));
    bytes_ += static_cast<int64_t>(count);
    ended_ = ended_ || count == 0;
    return count;
  }

  // Once, after the last Read: reads bytes without a decoder's request, too. nullopt if a source
  // still to come cannot tell.
  std::optional<Digest> Finish() {
    std::vector<uint8_t> buffer(kRestBytes);
    while (!ended_ && (to_end_ || bytes_ < total_bytes_)) {
      if (!Read(buffer).ok()) return std::nullopt;
    }
    if (!ended_ && bytes_ != total_bytes_) return std::nullopt;
    return hash_.Finish();
  }
  // FileEnd::Warning of all read bytes.
  std::string WarningOfEnd() const { return end_.Warning(); }

 private:
  ByteSource& source_;
  const int64_t total_bytes_;  // 0: unknown
  const bool to_end_;          // the digest of all is wanted whatever its size
  int64_t bytes_ = 0;
  bool ended_ = false;
  Sha256 hash_;
  FileEnd end_;
};

// Writes a result into the store before `sink` receives it.
class StoringSink final : public ByteSink {
 public:
  // `writer` may be null: nothing is stored.
  StoringSink(ByteSink& sink, std::unique_ptr<ResultStore::Writer> writer)
      : sink_(sink), writer_(std::move(writer)) {}

  absl::Status Write(std::span<const uint8_t> bytes) override {
    if (writer_ != nullptr) writer_->Append(bytes);
    return sink_.Write(bytes);
  }
  void Commit(StoredResult result) {
    if (writer_ != nullptr) writer_->Commit(std::move(result));
  }

 private:
  ByteSink& sink_;
  const std::unique_ptr<ResultStore::Writer> writer_;
};

}  // namespace

absl::StatusOr<pb::UpscaleSummary> ComputeAndStore(const HandlerEnvironment& environment,
                                                   const CallContext& context,
                                                   const ImageRequest& request,
                                                   const ImageStreams& streams, Flight* flight) {
  ResultSharing& sharing = *environment.sharing;
  std::unique_ptr<ResultStore::Writer> writer =
      sharing.store() == nullptr ? nullptr : sharing.store()->Create();
  if (flight != nullptr && writer != nullptr) flight->SetReadBack(writer->read_back());
  StoringSink output(streams.output, std::move(writer));
  std::optional<HashingSource> hashed;
  if (!request.key.has_value()) hashed.emplace(streams.input, request);
  ByteSource* const input = hashed.has_value() ? &*hashed : &streams.input;

  pb::UpscaleImageHeader announced;
  const auto on_header = [&](const pb::UpscaleImageHeader& header) {
    announced = header;
    return streams.on_header(header);
  };
  ASSIGN_OR_RETURN(ComputedImage computed, ComputeImage(environment, context, request,
                                                        {.input = *input,
                                                         .output = output,
                                                         .buffer_bytes = streams.buffer_bytes,
                                                         .on_header = on_header,
                                                         .on_progress = streams.on_progress},
                                                        flight));
  Digest source = request.source_digest;
  if (hashed.has_value()) {
    const std::optional<Digest> digest = hashed->Finish();
    if (std::string behind = hashed->WarningOfEnd(); !behind.empty()) {
      computed.summary.add_warnings(std::move(behind));
    }
    if (!digest.has_value()) return std::move(computed.summary);
    RETURN_IF_ERROR(CheckClaimedDigest(request.claimed_digest, *digest));
    const absl::StatusOr<Digest> key =
        sharing.KeyOf(context.payer.tenant, *digest, request.options, request.resolved);
    if (!key.ok() || computed.mixed) return std::move(computed.summary);
    source = *digest;
    announced.set_etag(sharing.NameOf(*key, computed.arithmetic));
  }
  computed.summary.set_etag(announced.etag());
  output.Commit({.name = announced.etag(),
                 .tenant = context.payer.tenant,
                 .media_type = std::string(FormatMediaType(request.resolved.encode.format)),
                 .header = StoredHeader(announced, computed.summary).SerializeAsString(),
                 .source = source,
                 .source_header = SourceToText(request.source)});
  return std::move(computed.summary);
}

}  // namespace upscaled::server
