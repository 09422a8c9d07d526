// A source received whole before its use.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/image/byte_stream.h"
#include "engine/image/codec.h"

namespace upscaled::server {

// Not thread safe.
class HeldSource {
 public:
  // Makes room for `bytes` in all before they are allocated; false: there is no room.
  using Reserve = std::function<bool(int64_t bytes)>;

  // `rest` gives at most `total_bytes` (0: unknown) and outlives this.
  HeldSource(ByteSource& rest, int64_t total_bytes) : rest_(rest), total_bytes_(total_bytes) {}

  // Whether the source ends before its first byte. To be asked first; reads some bytes.
  absl::StatusOr<bool> IsEmpty();
  // The image's header, from the first bytes. Errors as ReadImageHeader, and the errors of
  // `reserve`, called to make room for `bytes` in all. It is asked for more than the limit on
  // metadata only: a TIFF's header may stand behind its pixels.
  absl::StatusOr<ImageHeader> ReadHeader(const DecodeLimits& limits,
                                         const std::function<absl::Status(int64_t bytes)>& reserve);
  // Reads on. true: all bytes are there; false: there are more than `max_bytes`, or than there is
  // room for; the first bytes are there. Errors are the source's.
  absl::StatusOr<bool> ReadAll(int64_t max_bytes, const Reserve& reserve);

  // The bytes read so far, in no more memory than they need.
  std::vector<uint8_t> TakeBytes() {
    bytes_.shrink_to_fit();
    return std::move(bytes_);
  }
  std::span<const uint8_t> bytes() const { return bytes_; }

 private:
  ByteSource& rest_;
  const int64_t total_bytes_;
  std::vector<uint8_t> bytes_;
};

}  // namespace upscaled::server
