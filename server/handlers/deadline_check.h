// How long an image or a tile will take, and whether it is done before its call's deadline.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/base/payer.h"
#include "server/devices/device_chooser.h"

namespace upscaled::server {

// Costs are multiply-adds.
struct ImageWork {
  int device_class = 0;  // that is to compute it
  Priority priority = Priority::kInteractive;
  double stream_speed = 0;            // of its networks: multiply-adds a second of one stream
  int64_t cost = 0;                   // of its networks
  absl::Duration codec;               // of a core, beside them
  int64_t tiles = 1;                  // that may be computed at the same time
  int64_t streams_per_tile = 1;       // that may share one where there is nothing else to do
  int64_t cost_ahead = 0;             // of others, until it is computed
  int64_t cost_ahead_if_lasting = 0;  // the same while what ends is followed by its like
};

// The forecast, a sum, by the speed of all devices, and the image's own speed on one stream:
//
//   ahead is 1.2 x work ahead / speed + min(later work / speed, 4 x backlog age), 0 on idle devices
//   alone is own work / own speed + time of the codecs, spread over parallel streams
//
//  - Work ahead runs before this image is complete, if no more requests come.
//  - Later work is that of requests still to come. They pass every tile except the first.
//  - The backlog's age is the time for which the device class has had queued tiles without a break.
//  - 1.2 allows for later requests of other networks, because they pass in batches.
struct Forecast {
  absl::Duration ahead;  // for what is computed before it
  absl::Duration alone;
  absl::Duration total() const { return ahead + alone; }
};

// `classes` are the devices' work and speeds, by class. Nothing where the speed of the image's own
// is not known yet.
std::optional<Forecast> ForecastImage(std::span<const DeviceClassWork> classes,
                                      const ImageWork& image);

// Compares `forecast` with `left`, the time until the deadline. `what` names the image or the
// tile. RESOURCE_EXHAUSTED (kDeadlineInfeasible): the forecast is longer.
//  - Message and metadata {estimate, deadline} tell the client how long it would take.
//  - The retry delay says when the same time would be enough, if no more work arrives.
//  - There is no retry delay if the image alone takes longer than `left`.
absl::Status CheckDeadline(const Forecast& forecast, absl::Duration left,
                           absl::string_view what = "image");

}  // namespace upscaled::server
