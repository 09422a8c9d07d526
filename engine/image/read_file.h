// Reading a file into memory, for libraries with a need for the whole. Private to engine/image.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/cancellation.h"
#include "engine/base/status_macros.h"
#include "engine/image/byte_stream.h"

namespace upscaled {

// The first `max_bytes` of a file, or all there are: those in `file` already, and on from `source`.
// At most twice as much memory at any time.
inline absl::StatusOr<std::vector<uint8_t>> ReadFile(ByteSource& source, uint64_t max_bytes,
                                                     const Cancellation* cancellation,
                                                     std::vector<uint8_t> file = {}) {
  constexpr uint64_t kReadBytes = 64 << 10;
  while (file.size() < max_bytes) {
    if (cancellation != nullptr) RETURN_IF_ERROR(cancellation->status());
    const size_t have = file.size();
    if (have == file.capacity()) file.reserve(std::min(max_bytes, 2 * have + kReadBytes));
    file.resize(std::min<uint64_t>(file.capacity(), have + kReadBytes));
    const absl::StatusOr<size_t> count = source.Read(std::span(file).subspan(have));
    file.resize(have + count.value_or(0));
    RETURN_IF_ERROR(count.status());
    if (*count == 0) break;
  }
  return file;
}

}  // namespace upscaled
