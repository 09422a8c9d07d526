#include "server/handlers/deadline_check.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace upscaled::server {
namespace {

// The factor of the time for the work ahead: later requests of another network pass in batches of
// earlier ones.
constexpr double kPassing = 1.2;
// How much longer than until now a load is taken to last: rather too long: a refused image can come
// back, but a late one was computed for nothing.
constexpr double kLasting = 4;

// The speed of all streams of the class, in multiply-adds a second; 0: not known.
double SpeedOf(const DeviceClassWork& device_class) {
  if (!device_class.stream_speed.known()) return 0;
  return device_class.stream_speed.CostIn(absl::Seconds(1)) * device_class.streams;
}

// The speed of all devices.
double SpeedOf(std::span<const DeviceClassWork> classes) {
  double speed = 0;
  for (const DeviceClassWork& device_class : classes) speed += SpeedOf(device_class);
  return speed;
}

std::string Text(absl::Duration duration) {
  return absl::FormatDuration(absl::Ceil(duration, absl::Milliseconds(1)));
}

}  // namespace

std::optional<Forecast> ForecastImage(std::span<const DeviceClassWork> classes,
                                      const ImageWork& image) {
  const DeviceClassWork& own = classes[image.device_class];
  if (image.stream_speed == 0 || SpeedOf(own) == 0) return std::nullopt;
  const double speed = SpeedOf(classes);  // of all devices, which share what is ahead
  const absl::Duration ahead =
      absl::Seconds(kPassing * static_cast<double>(image.cost_ahead) / speed);
  // Later requests pass all of its tiles but the first, as long as the load lasts.
  const int64_t to_come = std::max<int64_t>(image.cost_ahead_if_lasting - image.cost_ahead, 0);
  const double passed = 1 - 1 / static_cast<double>(image.tiles);
  const absl::Duration passing =
      std::min(absl::Seconds(static_cast<double>(to_come) * passed / speed),
               kLasting * own.backlogged[static_cast<size_t>(image.priority)]);
  const absl::Duration networks =
      absl::Seconds(static_cast<double>(image.cost) / image.stream_speed);
  const int64_t parallel = image.tiles * (own.idle ? image.streams_per_tile : 1);
  return Forecast{// Idle devices wait for slow clients, which hold up no other request.
                  .ahead = own.idle ? absl::ZeroDuration() : ahead + passing,
                  .alone = networks / std::min<int64_t>(own.streams, parallel) +
                           image.codec / std::min<int64_t>(own.streams, image.tiles)};
}

absl::Status CheckDeadline(const Forecast& forecast, absl::Duration left, absl::string_view what) {
  const absl::Duration estimate = forecast.total();
  if (estimate <= left) return absl::OkStatus();

  left = std::max(left, absl::ZeroDuration());
  const bool later = forecast.alone <= left;
  const std::string message =
      absl::StrCat("the ", what, " would take ", Text(estimate), ", ", Text(forecast.ahead),
                   " of that for work ahead of it, and the call's deadline is in ", Text(left),
                   later ? absl::StrCat("; as much time would do in ", Text(estimate - left)) : "");
  const absl::Status refusal =
      MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kDeadlineInfeasible, message,
                {{"estimate", Text(estimate)}, {"deadline", Text(left)}});
  return later ? WithRetryDelay(refusal, absl::Ceil(estimate - left, absl::Milliseconds(1)))
               : refusal;
}

}  // namespace upscaled::server
