#include "server/handlers/deadline_check.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace upscaled::server {
namespace {

// In multiply-adds a second; 0: not known.
double SpeedOf(const DeviceClassWork& device_class, int64_t streams) {
  if (!device_class.stream_speed.known()) return 0;
  return device_class.stream_speed.CostIn(absl::Seconds(1)) * static_cast<double>(streams);
}

std::string Text(absl::Duration duration) {
  return absl::FormatDuration(absl::Ceil(duration, absl::Milliseconds(1)));
}

}  // namespace

absl::Status CheckDeadline(std::span<const DeviceClassWork> classes, const ImageWork& image,
                           absl::Duration left) {
  const DeviceClassWork& own = classes[image.device_class];
  const double own_speed = SpeedOf(own, std::min<int64_t>(own.streams, image.tiles));
  if (own_speed == 0) return absl::OkStatus();
  double speed = 0;  // of all devices, which share what is ahead
  for (const DeviceClassWork& device_class : classes) {
    speed += SpeedOf(device_class, device_class.streams);
  }
  const absl::Duration alone = absl::Seconds(static_cast<double>(image.cost) / own_speed);
  // Idle devices wait for what is admitted: its clients are slow, and hold nobody up.
  const absl::Duration ahead = own.idle
                                   ? absl::ZeroDuration()
                                   : absl::Seconds(static_cast<double>(image.cost_ahead) / speed);
  const absl::Duration estimate = ahead + alone;
  if (estimate <= left) return absl::OkStatus();

  left = std::max(left, absl::ZeroDuration());
  const bool later = alone <= left;
  const std::string message = absl::StrCat(
      "the image would take ", Text(estimate), ", ", Text(ahead),
      " of that for what is queued ahead of it, and the call's deadline is in ", Text(left),
      later ? absl::StrCat("; as much time would do in ", Text(estimate - left)) : "");
  const absl::Status refusal =
      MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kDeadlineInfeasible, message,
                {{"estimate", Text(estimate)}, {"deadline", Text(left)}});
  return later ? WithRetryDelay(refusal, absl::Ceil(estimate - left, absl::Milliseconds(1)))
               : refusal;
}

}  // namespace upscaled::server
