#include "server/handlers/engine_limits.h"

#include <cstdint>
#include <string>
#include <utility>

#include "server/base/error.h"

namespace upscaled::server {

DecodeLimits ToDecodeLimits(const HandlerEnvironment& environment, const RequestOptions& options) {
  const Limits& limits = environment.admission.limits();
  return {
      .max_pixels = limits.max_source_pixels,
      .max_metadata_bytes = static_cast<size_t>(limits.max_metadata_bytes),
      .max_jpeg_scans = limits.max_jpeg_scans,
      .max_frames = limits.max_frames,
      .frame = options.frame,
      .warns_of_frames = !options.frame_is_asked,
      .is_caged = environment.open_image != nullptr,
      .fill_damage = options.fill_damage,
      .explain = [&limits](DecodeLimit limit, int64_t value, const std::string& sentence) {
        switch (limit) {
          case DecodeLimit::kPixels:
            return LimitExceeded(sentence, value, limits.max_source_pixels, "max-source-pixels");
          case DecodeLimit::kMetadataBytes:
            return LimitExceeded(sentence, value, limits.max_metadata_bytes, "max-metadata-bytes");
          case DecodeLimit::kJpegScans:
            return LimitExceeded(sentence, value, limits.max_jpeg_scans, "max-jpeg-scans");
          case DecodeLimit::kFrames:
            return LimitExceeded(sentence, value, limits.max_frames, "max-frames");
        }
        return absl::ResourceExhaustedError(sentence);
      }};
}

absl::Status ExplainEngineError(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return WithReason(status, ErrorReason::kInvalidImage);
    case absl::StatusCode::kResourceExhausted:
      // Our own refusals.
      if (RetryDelayOf(status).has_value()) return status;
      if (ReasonOf(status) == ErrorReason::kDeadlineInfeasible) return status;
      return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kLimitExceeded,
                       std::string(status.message()));
    default:
      return status;
  }
}

}  // namespace upscaled::server
