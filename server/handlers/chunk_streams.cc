#include "server/handlers/chunk_streams.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/status_macros.h"
#include "server/base/error.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;

// Encoders write a row or less at a time; messages of this size cost little each and still leave
// early.
constexpr size_t kChunkBytes = size_t{128} << 10;

}  // namespace

absl::StatusOr<size_t> ChunkSource::Read(std::span<uint8_t> dst) {
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

absl::Status ChunkSink::Write(std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    if (chunk_.capacity() < kChunkBytes) chunk_.reserve(kChunkBytes);
    const size_t count = std::min(bytes.size(), kChunkBytes - chunk_.size());
    chunk_.append(reinterpret_cast<const char*>(bytes.data()), count);
    bytes = bytes.subspan(count);
    if (chunk_.size() == kChunkBytes) RETURN_IF_ERROR(Flush());
  }
  return absl::OkStatus();
}

absl::Status ChunkSink::Flush() {
  if (chunk_.empty()) return absl::OkStatus();
  pb::UpscaleImageResponse response;
  response.set_chunk(std::exchange(chunk_, std::string()));
  return writer_.Write(std::move(response));
}

}  // namespace upscaled::server
