// The limits of one request, regardless of the load.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/base/geometry.h"

namespace upscaled::server {

// Operators' unit of queued work: the multiply-adds of a source pixel of general-2x, with the halo
// of its tiles. Other models' pixels weigh by theirs.
inline constexpr int64_t kQueuePixelCost = 143'000;

// Delays of refusals: while nothing is known, and at least, to keep clients from circling.
inline constexpr absl::Duration kUnknownRetryDelay = absl::Seconds(1);
inline constexpr absl::Duration kMinRetryDelay = absl::Milliseconds(200);

// A call with a wait this long for a client with fewer bytes may lose its slot to another call.
inline constexpr absl::Duration kSlotPatience = absl::Seconds(5);
inline constexpr int64_t kSlotBytes = int64_t{64} << 10;

struct Limits {
  int64_t max_source_pixels = 100'000'000;
  int64_t max_result_pixels = 1'600'000'000;
  int64_t max_source_bytes = int64_t{256} << 20;  // an encoded source
  int64_t max_unary_bytes = int64_t{4} << 20;     // an encoded image in the unary call
  int64_t max_tile_pixels = 1'048'576;            // one raw tile of UpscaleTiles
  int max_concurrent_requests = 100;
  int max_requests_per_address = 0;  // 0: three quarters of those, rounded up
  // Work admitted and not yet computed, in kQueuePixelCost. One request counts as a quarter of it
  // at most: the heaviest one is possible and shuts no caller out.
  int64_t max_queue_pixels = 400'000'000;
  int64_t max_metadata_bytes = int64_t{4} << 20;  // before a source's pixels, and inflated
  int max_jpeg_scans = 100;
  int max_frames = 10'000;  // of an animation; all of them count for the limits on pixels
  // The most time of one request's networks on idle devices, as forecast from its header.
  absl::Duration max_request_time = absl::Hours(4);

  int64_t max_queue_cost() const { return max_queue_pixels * kQueuePixelCost; }
};

// Calls of one client address at a time. Its share of the memory budget is the calls' share, but a
// quarter at least.
int MaxRequestsPerAddress(const Limits& limits);

// `cost`, in multiply-adds, as operators count it; rounded up.
inline int64_t QueuePixels(int64_t cost) { return (cost + kQueuePixelCost - 1) / kQueuePixelCost; }

// INVALID_ARGUMENT with reason kLimitExceeded, `sentence`, which gives value and maximum, with the
// name of the limit's flag, and metadata {limit: the flag, value, maximum}.
absl::Status LimitExceeded(std::string_view sentence, int64_t value, int64_t maximum,
                           std::string_view flag);

// Each is OK, or INVALID_ARGUMENT with reason kLimitExceeded, a message that gives value and limit,
// and metadata {limit: its flag's name, value, maximum}. Sizes must not be negative.
absl::Status CheckResultSize(const Limits& limits, Size result, int frames = 1);
absl::Status CheckSourceBytes(const Limits& limits, int64_t bytes);
absl::Status CheckUnaryBytes(const Limits& limits, int64_t bytes);
absl::Status CheckTileSize(const Limits& limits, Size tile);
// `forecast`: the time of the request's networks. The metadata are in seconds.
absl::Status CheckRequestTime(const Limits& limits, absl::Duration forecast);

}  // namespace upscaled::server
