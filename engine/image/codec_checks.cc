#include "engine/image/codec_checks.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace upscaled {

absl::Status BeyondLimit(const DecodeLimits& limits, DecodeLimit limit, int64_t value,
                         std::string sentence) {
  if (limits.explain) return limits.explain(limit, value, std::move(sentence));
  return absl::ResourceExhaustedError(sentence);
}

absl::Status CheckImageSize(const char* format, int64_t width, int64_t height,
                            const DecodeLimits& limits) {
  if (width < 1 || height < 1)
    return absl::InvalidArgumentError(
        absl::StrCat(format, ": the image is empty: ", width, " x ", height, " px"));
  if (std::max(width, height) > limits.max_side_px)
    return absl::ResourceExhaustedError(absl::StrCat(format, ": the image is ", width, " x ",
                                                     height, " px; the limit is ",
                                                     limits.max_side_px, " px a side"));
  const int64_t pixels = width * height;
  if (pixels > limits.max_pixels)
    return BeyondLimit(limits, DecodeLimit::kPixels, pixels,
                       absl::StrCat(format, ": the image has ", pixels, " pixels (", width, " x ",
                                    height, "); the limit is ", limits.max_pixels));
  return absl::OkStatus();
}

absl::Status CheckMetadataBytes(const char* format, size_t end, const DecodeLimits& limits) {
  if (end <= limits.max_metadata_bytes) return absl::OkStatus();
  return BeyondLimit(
      limits, DecodeLimit::kMetadataBytes, static_cast<int64_t>(end),
      absl::StrCat(format, ": at least ", end, " bytes come before the pixels; the limit is ",
                   limits.max_metadata_bytes));
}

absl::Status CheckRows(const ImageSpec& spec, int next_row, const ImageSpec& rows) {
  if (rows.width_px == spec.width_px && rows.channels == spec.channels && rows.type == spec.type &&
      rows.height_px >= 0 && rows.height_px <= spec.height_px - next_row)
    return absl::OkStatus();
  return absl::InternalError(absl::StrCat(
      rows.height_px, " rows of ", rows.width_px, " px, ", rows.channels, " channels and ",
      SampleBytes(rows.type), " bytes a sample do not fit after row ", next_row, " of an image of ",
      spec.width_px, " x ", spec.height_px, " px, ", spec.channels, " channels and ",
      SampleBytes(spec.type), " bytes a sample"));
}

absl::Status CheckAllWritten(const ImageSpec& spec, int rows_written) {
  if (rows_written == spec.height_px) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(rows_written, " of ", spec.height_px, " rows were written"));
}

}  // namespace upscaled
