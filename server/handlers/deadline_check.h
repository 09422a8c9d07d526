// Whether an image can be computed before its call's deadline.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/devices/device_chooser.h"

namespace upscaled::server {

// Costs are multiply-adds.
struct ImageWork {
  int device_class = 0;    // that is to compute it
  int64_t cost = 0;        // its own
  int64_t tiles = 1;       // that may be computed at the same time
  int64_t cost_ahead = 0;  // of others, until it is computed
};

// `classes` are the devices' work and speeds, by class; `left` is the time until the deadline. OK
// also where nothing is known yet of the speed. Otherwise RESOURCE_EXHAUSTED (kDeadlineInfeasible),
// with a message and metadata {estimate, deadline} that say what it would take, and with a retry
// delay after which as much time would do, if no more comes; none where the image alone takes more.
absl::Status CheckDeadline(std::span<const DeviceClassWork> classes, const ImageWork& image,
                           absl::Duration left);

}  // namespace upscaled::server
