#include <algorithm>
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

absl::Status CheckTarget(const TargetSize& target) {
  if (!(target.scale >= 0) || target.width_px < 0 || target.height_px < 0 ||
      target.short_side_px < 0 || target.long_side_px < 0 || target.max_pixels < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "target scale ", target.scale, ", width ", target.width_px, ", height ", target.height_px,
        ", short side ", target.short_side_px, ", long side ", target.long_side_px,
        " and most pixels ", target.max_pixels, " must be 0 or more"));
  }
  const bool has_box = target.width_px > 0 || target.height_px > 0;
  if ((target.scale > 0) + has_box + (target.short_side_px > 0) + (target.long_side_px > 0) > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("target scale ", target.scale, ", size ", target.width_px, "x",
                     target.height_px, ", short side ", target.short_side_px, " and long side ",
                     target.long_side_px, " contradict each other: give one of them"));
  }
  return absl::OkStatus();
}

struct ExactSize {
  double width, height;
};

// As large as the box in one direction, and as `source` in shape.
ExactSize Contain(Size box, Size source) {
  const bool wide = int64_t{source.width} * box.height > int64_t{source.height} * box.width;
  if (wide) {
    const int64_t height = MulDiv(box.width, source.height, source.width);
    return {static_cast<double>(box.width), static_cast<double>(std::max<int64_t>(height, 1))};
  }
  const int64_t width = MulDiv(box.height, source.width, source.height);
  return {static_cast<double>(std::max<int64_t>(width, 1)), static_cast<double>(box.height)};
}

ExactSize WithWidth(int64_t width, Size source) {
  return {static_cast<double>(width),
          static_cast<double>(MulDiv(width, source.height, source.width))};
}

ExactSize WithHeight(int64_t height, Size source) {
  return {static_cast<double>(MulDiv(height, source.width, source.height)),
          static_cast<double>(height)};
}

ExactSize SizeAskedFor(const TargetSize& target, Size source, int model_scale) {
  const bool upright = source.height >= source.width;
  if (target.short_side_px > 0) {
    return upright ? WithWidth(target.short_side_px, source)
                   : WithHeight(target.short_side_px, source);
  }
  if (target.long_side_px > 0) {
    return upright ? WithHeight(target.long_side_px, source)
                   : WithWidth(target.long_side_px, source);
  }
  if (target.width_px > 0 && target.height_px > 0) {
    if (target.fit == Fit::kContain) return Contain({target.width_px, target.height_px}, source);
    return {static_cast<double>(target.width_px), static_cast<double>(target.height_px)};
  }
  if (target.width_px > 0) return WithWidth(target.width_px, source);
  if (target.height_px > 0) return WithHeight(target.height_px, source);
  const double scale = target.scale > 0 ? target.scale : model_scale;
  return {std::floor(source.width * scale + 0.5), std::floor(source.height * scale + 0.5)};
}

bool Covers(const TargetSize& target) {
  return target.fit == Fit::kCover && target.width_px > 0 && target.height_px > 0;
}

// `size`, made smaller in proportion by the limits of `target`.
ExactSize Limited(ExactSize size, const TargetSize& target, Size source) {
  double factor = 1;
  if (target.no_enlarge && target.fit == Fit::kStretch) {
    size = {std::min<double>(size.width, source.width),
            std::min<double>(size.height, source.height)};
  } else if (target.no_enlarge) {
    factor = std::min({factor, source.width / size.width, source.height / size.height});
  }
  const double pixels = size.width * factor * size.height * factor;
  if (target.max_pixels > 0 && pixels > static_cast<double>(target.max_pixels)) {
    factor *= std::sqrt(static_cast<double>(target.max_pixels) / pixels);
    // Rounded down, to keep the product within the limit.
    return {std::max(1.0, std::floor(size.width * factor)),
            std::max(1.0, std::floor(size.height * factor))};
  }
  if (factor == 1) return size;
  return {std::max(1.0, std::floor(size.width * factor + 0.5)),
          std::max(1.0, std::floor(size.height * factor + 0.5))};
}

// The largest part in the middle of `source` with the shape of `result`.
Rect Middle(Size source, Size result) {
  const ExactSize part = Contain(source, result);
  const int width = std::min(source.width, static_cast<int>(part.width));
  const int height = std::min(source.height, static_cast<int>(part.height));
  return {(source.width - width) / 2, (source.height - height) / 2, width, height};
}

}  // namespace

absl::StatusOr<ResolvedTarget> ResolveTarget(const TargetSize& target, Size source,
                                             int model_scale) {
  if (source.width < 1 || source.height < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("source size ", Describe(source), " is below 1 pixel"));
  }
  RETURN_IF_ERROR(CheckTarget(target));
  RETURN_IF_ERROR(CheckNotTooLarge(target.width_px, target.height_px));
  RETURN_IF_ERROR(CheckNotTooLarge(target.short_side_px, target.long_side_px));
  const ExactSize asked = SizeAskedFor(target, source, model_scale);
  if (asked.width < 1 || asked.height < 1) {
    return absl::InvalidArgumentError(absl::StrCat("target size ", asked.width, "x", asked.height,
                                                   " of an image of ", Describe(source),
                                                   " is below 1 pixel"));
  }
  const ExactSize size = Limited(asked, target, source);
  RETURN_IF_ERROR(CheckNotTooLarge(size.width, size.height));
  ResolvedTarget resolved{.source = {0, 0, source.width, source.height},
                          .result = {static_cast<int>(size.width), static_cast<int>(size.height)}};
  if (Covers(target)) resolved.source = Middle(source, resolved.result);
  return resolved;
}

}  // namespace upscaled
