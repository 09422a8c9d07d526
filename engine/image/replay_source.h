// A source with its first bytes read already, to look at the header.
#pragma once

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "engine/image/byte_stream.h"

namespace upscaled {

class ReplaySource final : public ByteSource {
 public:
  // `rest` continues after `prefix` and must outlive this source.
  ReplaySource(std::vector<uint8_t> prefix, ByteSource& rest)
      : prefix_(std::move(prefix)), rest_(rest) {}

  absl::StatusOr<size_t> Read(std::span<uint8_t> dst) override {
    if (prefix_.empty()) return rest_.Read(dst);
    const size_t count = std::min(dst.size(), prefix_.size() - next_);
    std::memcpy(dst.data(), prefix_.data() + next_, count);
    next_ += count;
    if (next_ == prefix_.size()) prefix_ = {};
    return count;
  }

  // The bytes from the first one; empty once all of them were read.
  std::span<const uint8_t> prefix() const { return prefix_; }
  // The same, before the first Read. Read then goes on behind them.
  std::vector<uint8_t> TakePrefix() { return std::exchange(prefix_, {}); }

 private:
  std::vector<uint8_t> prefix_;
  size_t next_ = 0;
  ByteSource& rest_;
};

}  // namespace upscaled
