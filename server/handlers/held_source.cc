#include "server/handlers/held_source.h"

#include <algorithm>

#include "engine/base/status_macros.h"

namespace upscaled::server {
namespace {

constexpr int64_t kFirstBytes = int64_t{256} << 10;
constexpr size_t kFirstLookBytes = 4096;

// Makes room for a prefix, and its copy while it grows, once it is longer than `free_bytes`.
class PaidSource final : public ByteSource {
 public:
  PaidSource(ByteSource& source, size_t held_bytes, size_t free_bytes,
             const std::function<absl::Status(int64_t)>& reserve)
      : source_(source), bytes_(held_bytes), paid_bytes_(free_bytes), reserve_(reserve) {}

  absl::StatusOr<size_t> Read(std::span<uint8_t> dst) override {
    if (bytes_ + dst.size() > paid_bytes_) {
      paid_bytes_ = 2 * (bytes_ + dst.size());
      RETURN_IF_ERROR(reserve_(static_cast<int64_t>(2 * paid_bytes_)));
    }
    ASSIGN_OR_RETURN(const size_t count, source_.Read(dst));
    bytes_ += count;
    return count;
  }

 private:
  ByteSource& source_;
  size_t bytes_, paid_bytes_;
  const std::function<absl::Status(int64_t)>& reserve_;
};

}  // namespace

absl::StatusOr<bool> HeldSource::IsEmpty() {
  bytes_.resize(kFirstLookBytes);
  const absl::StatusOr<size_t> count = rest_.Read(bytes_);
  bytes_.resize(count.value_or(0));
  RETURN_IF_ERROR(count.status());
  return bytes_.empty();
}

absl::StatusOr<ImageHeader> HeldSource::ReadHeader(
    const DecodeLimits& limits, const std::function<absl::Status(int64_t bytes)>& reserve) {
  PaidSource paid(rest_, bytes_.size(), limits.max_metadata_bytes, reserve);
  return ReadImageHeader(paid, limits, bytes_);
}

absl::StatusOr<bool> HeldSource::ReadAll(int64_t max_bytes, const Reserve& reserve) {
  const int64_t stop = max_bytes + 1;  // one byte more than the maximum shows that there are more
  auto size = static_cast<int64_t>(bytes_.size());
  bool ended = false;
  while (!ended && size < stop && (total_bytes_ == 0 || size < total_bytes_)) {
    const auto room = static_cast<int64_t>(bytes_.size());
    if (size == room) {
      const int64_t wanted = total_bytes_ > size ? total_bytes_ : std::max(2 * room, kFirstBytes);
      if (!reserve(room + std::min(wanted, stop))) return false;  // both, while it is copied
      bytes_.reserve(static_cast<size_t>(std::min(wanted, stop)));
      bytes_.resize(bytes_.capacity());
    }
    ASSIGN_OR_RETURN(const size_t count, rest_.Read(std::span(bytes_).subspan(size)));
    size += static_cast<int64_t>(count);
    ended = count == 0;
  }
  bytes_.resize(static_cast<size_t>(size));
  return size <= max_bytes;
}

}  // namespace upscaled::server
