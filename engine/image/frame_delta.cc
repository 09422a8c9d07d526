#include "engine/image/frame_delta.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace upscaled {

void FrameDelta::Advance() {
  std::swap(current_, previous_);
  has_previous_ = true;
  rows_ = 0;
}

void FrameDelta::AddRows(ImageView rows) {
  for (int y = 0; y < rows.height_px(); ++y, ++rows_)
    std::memcpy(current_.mutable_view().row(rows_), rows.row(y), rows.spec.row_bytes());
}

Rect FrameDelta::Changed(int step_px) const {
  const ImageSpec& spec = current_.spec();
  if (!has_previous_) return {0, 0, spec.width_px, spec.height_px};
  const size_t pixel_bytes = spec.pixel_bytes(), row_bytes = spec.row_bytes();
  size_t left = row_bytes, right = 0;  // in bytes of a row
  int top = spec.height_px, bottom = 0;
  for (int y = 0; y < spec.height_px; ++y) {
    const uint8_t *now = current_.view().row(y), *before = previous_.view().row(y);
    if (std::memcmp(now, before, row_bytes) == 0) continue;
    top = std::min(top, y);
    bottom = y + 1;
    left = std::min<size_t>(left, std::mismatch(now, now + left, before).first - now);
    size_t end = row_bytes;
    while (end > right && now[end - 1] == before[end - 1]) --end;
    right = end;
  }
  if (bottom == 0) return {0, 0, 1, 1};
  const int x = static_cast<int>(left / pixel_bytes) / step_px * step_px;
  const int y = top / step_px * step_px;
  const int width = static_cast<int>((right + pixel_bytes - 1) / pixel_bytes) - x;
  return {x, y, width, bottom - y};
}

}  // namespace upscaled
