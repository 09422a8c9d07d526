#include "engine/backends/overflow.h"

#include <cstddef>
#include <cstdint>

#include "engine/base/finite.h"
#include "engine/base/int_math.h"
#include "engine/base/status_macros.h"
#include "engine/image/copy_rgb.h"

namespace upscaled {
namespace {

Rect RelativeTo(const Rect& rect, const Rect& origin) {
  return {rect.x - origin.x, rect.y - origin.y, rect.width, rect.height};
}

// The source pixels whose results cover the runs.
Rect SourceOf(std::span<const Rect> runs, int scale) {
  Rect pixels;
  for (const Rect& run : runs) pixels = Cover(pixels, run);
  const int x = pixels.x / scale, y = pixels.y / scale;
  return {x, y, CeilDiv(pixels.right(), scale) - x, CeilDiv(pixels.bottom(), scale) - y};
}

}  // namespace

void AppendOverflowed(const float* first, int channels, int count, int x, int y,
                      std::vector<Rect>& runs) {
  if (AllFinite(first, count * channels)) return;
  for (int n = 0; n < count; ++n) {
    if (AllFinite(first + static_cast<ptrdiff_t>(n) * channels, channels)) continue;
    const bool goes_on = !runs.empty() && runs.back().y == y && runs.back().right() == x + n;
    if (!goes_on) runs.push_back({x + n, y, 0, 1});
    ++runs.back().width;
  }
}

absl::Status ReplaceOverflowed(
    std::span<const Rect> runs, int scale, const Rect& tile, const MutableImageView& dst,
    absl::FunctionRef<absl::Status(const Rect& tile, const MutableImageView& dst)> compute) {
  if (runs.empty()) return absl::OkStatus();
  const Rect part = SourceOf(runs, scale);
  const Rect whole = Scale(tile, scale), computed = Scale(part, scale);
  Image exact({computed.width, computed.height, kRgbChannels, dst.spec.type});
  RETURN_IF_ERROR(compute(part, exact.mutable_view()));
  for (const Rect& run : runs) {
    const uint8_t* from = exact.view().Crop(RelativeTo(run, computed)).data;
    CopyRgb(from, run.width, dst.spec, dst.Crop(RelativeTo(run, whole)).data);
  }
  return absl::OkStatus();
}

}  // namespace upscaled
