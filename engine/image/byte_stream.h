// Where codecs read encoded bytes from and write them to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace upscaled {

// One reader; may block until bytes arrive.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills a part of `dst` (not empty) and returns how much, at least 1; 0 at the end of the data.
  virtual absl::StatusOr<size_t> Read(std::span<uint8_t> dst) = 0;
};

// One writer; may block until there is room.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual absl::Status Write(std::span<const uint8_t> bytes) = 0;
};

}  // namespace upscaled
