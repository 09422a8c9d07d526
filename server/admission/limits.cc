#include "server/admission/limits.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/string_view.h"
#include "server/base/error.h"

namespace upscaled::server {
namespace {

absl::Status Check(absl::string_view what, int64_t value, absl::string_view unit, int64_t maximum,
                   std::string_view flag) {
  if (value <= maximum) return absl::OkStatus();
  return LimitExceeded(
      absl::StrCat(what, " has ", value, " ", unit, ", more than the limit of ", maximum), value,
      maximum, flag);
}

absl::Status CheckPixels(absl::string_view what, Size size, int64_t maximum, std::string_view flag,
                         int frames = 1) {
  const std::string of_frames = frames > 1 ? absl::StrCat(frames, " frames of ") : "";
  return Check(absl::StrCat(what, " of ", of_frames, size.width, "x", size.height),
               size.Area() * frames, "pixels", maximum, flag);
}

}  // namespace

int MaxRequestsPerAddress(const Limits& limits) {
  if (limits.max_requests_per_address == 0) return (3 * limits.max_concurrent_requests + 3) / 4;
  return std::min(limits.max_requests_per_address, limits.max_concurrent_requests);
}

absl::Status LimitExceeded(std::string_view sentence, int64_t value, int64_t maximum,
                           std::string_view flag) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kLimitExceeded,
                   absl::StrCat(ToAbsl(sentence), " (", ToAbsl(flag), ")"),
                   {{"limit", std::string(flag)},
                    {"value", absl::StrCat(value)},
                    {"maximum", absl::StrCat(maximum)}});
}

absl::Status CheckResultSize(const Limits& limits, Size result, int frames) {
  return CheckPixels("the result", result, limits.max_result_pixels, "max-result-pixels", frames);
}

absl::Status CheckSourceBytes(const Limits& limits, int64_t bytes) {
  return Check("the source file", bytes, "bytes", limits.max_source_bytes, "max-source-bytes");
}

absl::Status CheckUnaryBytes(const Limits& limits, int64_t bytes) {
  return Check("the image in a unary call", bytes, "bytes", limits.max_unary_bytes,
               "max-unary-bytes");
}

absl::Status CheckRequestTime(const Limits& limits, absl::Duration forecast) {
  if (forecast <= limits.max_request_time) return absl::OkStatus();
  const absl::Duration shown = absl::Ceil(forecast, absl::Seconds(1));
  return LimitExceeded(
      absl::StrCat("the networks would compute the image for ", absl::FormatDuration(shown),
                   ", more than the limit of ", absl::FormatDuration(limits.max_request_time)),
      absl::ToInt64Seconds(shown), absl::ToInt64Seconds(limits.max_request_time),
      "max-request-time");
}

absl::Status CheckTileSize(const Limits& limits, Size tile) {
  return CheckPixels("the tile", tile, limits.max_tile_pixels, "max-tile-pixels");
}

}  // namespace upscaled::server
