#include "engine/graph/windows.h"

#include "engine/base/int_math.h"
#include "engine/graph/tile_geometry.h"

namespace upscaled {

Rect WindowAt(const Layer& layer, int x, int y) {
  const WindowAxis &columns = layer.window_x, &rows = layer.window_y;
  return {BlockBegin(x, columns.window_px, -columns.shift_px),
          BlockBegin(y, rows.window_px, -rows.shift_px), columns.window_px, rows.window_px};
}

Rect KeysOfWindow(const Layer& layer, const Rect& window) {
  return Expand(window, layer.overlap_px);
}

Rect CountedPixels(const Layer& layer, Size size) {
  const Rect padded{0, 0, RoundUp(size.width, layer.factor), RoundUp(size.height, layer.factor)};
  return Expand(padded, layer.overlap_px);
}

}  // namespace upscaled
