// The Range field (RFC 9110, section 14.2).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace upscaled::server {

struct ByteRange {
  int64_t begin = 0;
  int64_t end = 0;  // behind the last one

  bool empty() const { return begin >= end; }
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

// The part of `bytes` bytes that `field` asks for; empty: it lies outside of them (status 416).
// None: all of them, as the field is none, asks for several parts, which may be ignored, or breaks
// the rules, which must be.
std::optional<ByteRange> ParseRange(std::string_view field, int64_t bytes);

}  // namespace upscaled::server
