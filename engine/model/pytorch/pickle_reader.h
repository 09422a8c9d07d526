// The bytes of a pickle, from the first on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace upscaled::pytorch {

// Borrows the bytes, and gives kMaxPickleBytes of them at most. Its errors are INVALID_ARGUMENT, or
// RESOURCE_EXHAUSTED at that limit.
class PickleReader {
 public:
  explicit PickleReader(std::string_view bytes);

  size_t position() const { return position_; }  // of the next byte

  absl::StatusOr<std::string_view> Take(uint64_t count);
  // A number of this many bytes (1..8), the lowest first.
  absl::StatusOr<uint64_t> Number(int bytes);
  // Up to the next line feed, and takes it as well.
  absl::StatusOr<std::string_view> Line();

 private:
  const std::string_view bytes_;
  const bool capped_;
  size_t position_ = 0;
};

}  // namespace upscaled::pytorch
