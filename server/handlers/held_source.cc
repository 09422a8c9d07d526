#include "server/handlers/held_source.h"

#include <algorithm>

#include "engine/base/status_macros.h"

namespace upscaled::server {
namespace {

constexpr int64_t kFirstBytes = int64_t{256} << 10;
constexpr size_t kFirstLookBytes = 4096;

}  // namespace

absl::StatusOr<bool> HeldSource::IsEmpty() {
  bytes_.resize(kFirstLookBytes);
  const absl::StatusOr<size_t> count = rest_.Read(bytes_);
  bytes_.resize(count.value_or(0));
  RETURN_IF_ERROR(count.status());
  return bytes_.empty();
}

absl::StatusOr<ImageHeader> HeldSource::ReadHeader(const DecodeLimits& limits) {
  return ReadImageHeader(rest_, limits, bytes_);
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
