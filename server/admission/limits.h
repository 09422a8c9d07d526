// The limits of one request, whatever the load.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "engine/base/geometry.h"

namespace upscaled::server {

struct Limits {
  int64_t max_source_pixels = 100'000'000;
  int64_t max_result_pixels = 1'600'000'000;
  int64_t max_source_bytes = int64_t{256} << 20;  // an encoded source
  int64_t max_unary_bytes = int64_t{4} << 20;     // an encoded image in the unary call
  int64_t max_tile_pixels = 1'048'576;            // one raw tile of UpscaleTiles
  int max_concurrent_requests = 100;
  int64_t max_queue_pixels = 400'000'000;         // source pixels admitted and not yet computed
  int64_t max_metadata_bytes = int64_t{4} << 20;  // before a source's pixels, and inflated
  int max_jpeg_scans = 100;
};

// INVALID_ARGUMENT with reason kLimitExceeded, `sentence`, which gives value and maximum, with the
// name of the limit's flag, and metadata {limit: the flag, value, maximum}.
absl::Status LimitExceeded(std::string_view sentence, int64_t value, int64_t maximum,
                           std::string_view flag);

// Each is OK, or INVALID_ARGUMENT with reason kLimitExceeded, a message that gives value and limit,
// and metadata {limit: its flag's name, value, maximum}. Sizes must not be negative.
absl::Status CheckResultSize(const Limits& limits, Size result);
absl::Status CheckSourceBytes(const Limits& limits, int64_t bytes);
absl::Status CheckUnaryBytes(const Limits& limits, int64_t bytes);
absl::Status CheckTileSize(const Limits& limits, Size tile);

}  // namespace upscaled::server
