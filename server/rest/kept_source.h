// A source that keeps all read bytes, to be given once more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/image/byte_stream.h"

namespace upscaled::server {

class KeptSource final : public ByteSource {
 public:
  // Keeps up to `max_bytes`; `source` must outlive it.
  KeptSource(ByteSource& source, size_t max_bytes) : source_(source), max_bytes_(max_bytes) {}

  absl::StatusOr<size_t> Read(std::span<uint8_t> dst) override {
    const absl::StatusOr<size_t> count = source_.Read(dst);
    if (!count.ok()) lost_ = true;
    if (!count.ok() || lost_) return count;
    lost_ = kept_.size() + *count > max_bytes_;
    if (lost_) {
      kept_ = {};
    } else {
      kept_.insert(kept_.end(), dst.begin(), dst.begin() + static_cast<ptrdiff_t>(*count));
    }
    return count;
  }

  // Whether kept() and the unread rest are the whole: nothing failed, nothing was too much.
  bool whole() const { return !lost_; }
  std::span<const uint8_t> kept() const { return kept_; }
  // The bytes after kept().
  ByteSource& rest() { return source_; }

 private:
  ByteSource& source_;
  const size_t max_bytes_;
  std::vector<uint8_t> kept_;
  bool lost_ = false;
};

}  // namespace upscaled::server
