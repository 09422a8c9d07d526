#include "server/handlers/streamed_image.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/file_end.h"
#include "engine/image/replay_source.h"
#include "server/base/error.h"
#include "server/handlers/compute_image.h"
#include "server/handlers/result_sharing.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;

constexpr size_t kRestBytes = size_t{64} << 10;

// A source being read, and the digest of the bytes read.
class HashingSource final : public ByteSource {
 public:
  HashingSource(ByteSource& source, const ImageJob& job)
      : source_(source), total_bytes_(job.input_bytes), to_end_(job.source_digest.has_value()) {}

  absl::StatusOr<size_t> Read(std::span<uint8_t> dst) override {
    ASSIGN_OR_RETURN(const size_t count, source_.Read(dst));
    hash_.Update(dst.first(count));
    end_.Pass(dst.first(count));
    bytes_ += static_cast<int64_t>(count);
    ended_ = ended_ || count == 0;
    return count;
  }

  // Once, after the last Read: reads what no decoder has asked for, too. nullopt when that cannot
  // be told from a source that is still to come.
  std::optional<Digest> Finish() {
    std::vector<uint8_t> buffer(kRestBytes);
    while (!ended_ && (to_end_ || bytes_ < total_bytes_)) {
      if (!Read(buffer).ok()) return std::nullopt;
    }
    if (!ended_ && bytes_ != total_bytes_) return std::nullopt;
    return hash_.Finish();
  }
  // FileEnd::Warning of all that was read.
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

// Writes a result into the store as well.
class StoringSink final : public ByteSink {
 public:
  StoringSink(ByteSink& sink, ResultStore* store)
      : sink_(sink), writer_(store == nullptr ? nullptr : store->Create()) {}

  absl::Status Write(std::span<const uint8_t> bytes) override {
    if (writer_ != nullptr) writer_->Append(bytes);
    return sink_.Write(bytes);
  }
  void Commit(StoredResult result) {
    if (writer_ != nullptr) writer_->Commit(std::move(result));
  }

 private:
  ByteSink& sink_;
  const std::unique_ptr<ResultStore::Writer> writer_;  // null: no store
};

// The result's name; "": it has no name.
std::string NameOf(ResultSharing& sharing, const std::string& tenant, const StreamedImage& image,
                   const Digest& source, const ComputedImage& computed) {
  const absl::StatusOr<Digest> key =
      sharing.KeyOf(tenant, source, image.job.options, image.resolved);
  return key.ok() && !computed.mixed ? sharing.NameOf(*key, computed.arithmetic) : "";
}

}  // namespace

absl::Status CheckSourceDigest(const ImageJob& job, const Digest& digest) {
  if (!job.source_digest.has_value() || *job.source_digest == digest) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidOption,
      absl::StrCat("the image's SHA-256 is ", ToHex(digest), ", not ", ToHex(*job.source_digest),
                   " as the request says (Content-Digest, source_sha256)"),
      {{"field", "source_sha256"}});
}

absl::StatusOr<pb::UpscaleSummary> StreamImage(const HandlerEnvironment& environment,
                                               const CallContext& context, StreamedImage image) {
  const ImageJob& job = image.job;
  ResultSharing& sharing = *environment.sharing;
  ++sharing.counts().computed;
  const size_t prefix_bytes = image.prefix.size();
  ReplaySource replay(std::move(image.prefix), job.input);
  HashingSource input(replay, job);
  StoringSink output(job.output, sharing.store());
  pb::UpscaleImageHeader announced;
  const auto on_header = [&](const pb::UpscaleImageHeader& header) {
    announced = header;
    return job.on_header(header);
  };
  ASSIGN_OR_RETURN(ComputedImage computed,
                   ComputeImage(environment, context,
                                {.options = job.options,
                                 .models = image.models,
                                 .input = input,
                                 .output = output,
                                 .buffer_bytes = job.buffer_bytes + prefix_bytes,
                                 .on_header = on_header,
                                 .on_progress = job.on_progress}));
  const std::optional<Digest> source = input.Finish();
  if (std::string behind = input.WarningOfEnd(); !behind.empty()) {
    computed.summary.add_warnings(std::move(behind));
  }
  if (source.has_value()) RETURN_IF_ERROR(CheckSourceDigest(job, *source));
  const std::string name =
      source.has_value() ? NameOf(sharing, context.payer.tenant, image, *source, computed) : "";
  if (name.empty()) return std::move(computed.summary);
  computed.summary.set_etag(name);
  announced.set_etag(name);
  output.Commit({.name = name,
                 .tenant = context.payer.tenant,
                 .media_type = std::string(FormatMediaType(image.resolved.encode.format)),
                 .header = StoredHeader(announced, computed.summary).SerializeAsString(),
                 .source = *source,
                 .source_header = std::move(image.source_header)});
  return std::move(computed.summary);
}

}  // namespace upscaled::server
