// The tile scheduler's reports, for the metrics.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace upscaled::server {

// One Stream::Run.
struct BatchReport {
  std::span<const absl::Duration> queue;  // one per tile: from Submit to the start of the run
  absl::Duration infer;
  int64_t source_pixels = 0;
  absl::Status status;
  std::string_view device;  // its name
  absl::Duration busy;      // the time of all streams that took part
};

// Called on the scheduler's threads with no lock held; must be thread safe and quick.
class TileObserver {
 public:
  virtual ~TileObserver() = default;
  // After the run, before its tiles' TileDone.
  virtual void OnBatch(const BatchReport& batch) = 0;
  // Tiles dropped before they ran, because their request was cancelled.
  virtual void OnDropped(int64_t tiles) = 0;
  // Tiles of a batch with a failed device, to run once more on another one.
  virtual void OnMoved(int64_t tiles) = 0;
};

}  // namespace upscaled::server
