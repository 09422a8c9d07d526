// A source read through a buffer, by decoders that take single bytes. Private to engine/image.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "engine/base/cancellation.h"
#include "engine/base/status_macros.h"
#include "engine/image/byte_stream.h"

namespace upscaled {

// Errors are the source's, or the reason of the cancellation. Each refill looks at it.
class BufferedSource {
 public:
  static constexpr size_t kBytes = size_t{16} << 10;

  BufferedSource(std::unique_ptr<ByteSource> source, const Cancellation* cancellation)
      : source_(std::move(source)), cancellation_(cancellation) {}

  // Fills `dst` as far as the data go and returns how far.
  absl::StatusOr<size_t> Read(std::span<uint8_t> dst) {
    size_t done = 0;
    while (done < dst.size()) {
      if (rest_.empty()) RETURN_IF_ERROR(Refill());
      if (rest_.empty()) break;
      const size_t count = std::min(rest_.size(), dst.size() - done);
      std::memcpy(&dst[done], rest_.data(), count);
      rest_ = rest_.subspan(count);
      done += count;
    }
    position_ += done;
    return done;
  }

  // nullopt: the data have ended.
  absl::StatusOr<std::optional<uint8_t>> ReadByte() {
    uint8_t byte;
    ASSIGN_OR_RETURN(const size_t count, Read({&byte, 1}));
    return count == 0 ? std::nullopt : std::optional(byte);
  }

  // false: the data end before.
  absl::StatusOr<bool> Skip(uint64_t bytes) {
    uint8_t scratch[256];
    while (bytes > 0) {
      const size_t wanted = std::min<uint64_t>(bytes, sizeof(scratch));
      ASSIGN_OR_RETURN(const size_t count, Read({scratch, wanted}));
      if (count < wanted) return false;
      bytes -= count;
    }
    return true;
  }

  // The read bytes.
  uint64_t position() const { return position_; }

 private:
  absl::Status Refill() {
    if (cancellation_ != nullptr) RETURN_IF_ERROR(cancellation_->status());
    ASSIGN_OR_RETURN(const size_t count, source_->Read(buffer_));
    rest_ = std::span(buffer_).first(count);
    return absl::OkStatus();
  }

  const std::unique_ptr<ByteSource> source_;
  const Cancellation* const cancellation_;
  uint8_t buffer_[kBytes];
  std::span<const uint8_t> rest_;
  uint64_t position_ = 0;
};

}  // namespace upscaled
