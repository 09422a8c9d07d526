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

// The part of `bytes` bytes requested by `field`; empty: it lies outside of them (status 416).
// None: all of them, since the field is missing, asks for several parts (these may be ignored), or
// breaks the rules (this must be ignored).
std::optional<ByteRange> ParseRange(std::string_view field, int64_t bytes);

}  // namespace upscaled::server
