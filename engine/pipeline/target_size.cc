#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/pipeline/upscaler.h"

namespace upscaled {
namespace {

// No format holds more, and coordinates of intermediate images stay far inside an int.
constexpr int kMaxTargetSidePx = 1 << 20;

std::string Describe(Size size) { return absl::StrCat(size.width, "x", size.height); }

// a * b / c, rounded half up.
int64_t MulDiv(int64_t a, int64_t b, int64_t c) { return (2 * a * b + c) / (2 * c); }

absl::Status CheckNotTooLarge(double width, double height) {
  if (width <= kMaxTargetSidePx && height <= kMaxTargetSidePx) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("target size ", width, "x", height,
                                                 " passes the limit of ", kMaxTargetSidePx,
                                                 " pixels a side"));
}

absl::StatusOr<Size> CheckSides(double width, double height, Size source) {
  if (width < 1 || height < 1) {
    return absl::InvalidArgumentError(absl::StrCat("target size ", width, "x", height,
                                                   " of an image of ", Describe(source),
                                                   " is below 1 pixel"));
  }
  RETURN_IF_ERROR(CheckNotTooLarge(width, height));
  return Size{static_cast<int>(width), static_cast<int>(height)};
}

}  // namespace

absl::StatusOr<Size> ResolveTargetSize(const TargetSize& target, Size source, int model_scale) {
  if (source.width < 1 || source.height < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("source size ", Describe(source), " is below 1 pixel"));
  }
  if (!(target.scale >= 0) || target.width_px < 0 || target.height_px < 0) {
    return absl::InvalidArgumentError(absl::StrCat("target scale ", target.scale, ", width ",
                                                   target.width_px, " and height ",
                                                   target.height_px, " must be 0 or more"));
  }
  const bool has_size = target.width_px > 0 || target.height_px > 0;
  if (has_size && target.scale > 0) {
    return absl::InvalidArgumentError(absl::StrCat("target scale ", target.scale,
                                                   " contradicts target size ", target.width_px,
                                                   "x", target.height_px, ": give one of them"));
  }
  if (!has_size) {
    const double scale = target.scale > 0 ? target.scale : model_scale;
    return CheckSides(std::floor(source.width * scale + 0.5),
                      std::floor(source.height * scale + 0.5), source);
  }
  RETURN_IF_ERROR(CheckNotTooLarge(target.width_px, target.height_px));
  int64_t width = target.width_px, height = target.height_px;
  if (width == 0) width = MulDiv(height, source.width, source.height);
  if (height == 0) height = MulDiv(width, source.height, source.width);
  return CheckSides(static_cast<double>(width), static_cast<double>(height), source);
}

}  // namespace upscaled
