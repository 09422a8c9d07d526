// A rectangle of one layer's output, as plain planes of floats.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/base/geometry.h"

namespace upscaled::reference {

struct Tensor {
  Rect region;  // in the layer's whole-image coordinates
  int channels = 0;
  Size layer;                 // the layer's whole output
  std::vector<float> values;  // channels planes of region.height rows of region.width

  Tensor() = default;
  Tensor(const Rect& region, int channels, Size layer)
      : region(region),
        channels(channels),
        layer(layer),
        values(channels * static_cast<size_t>(region.Area())) {}
  // A region that reaches the layer's end.
  Tensor(const Rect& region, int channels)
      : Tensor(region, channels, {region.right(), region.bottom()}) {}

  // Row `y` (whole-image coordinate) of a channel; its first value is at region.x.
  float* row(int channel, int y) { return values.data() + RowOffset(channel, y); }
  const float* row(int channel, int y) const { return values.data() + RowOffset(channel, y); }
  float at(int channel, int x, int y) const { return row(channel, y)[x - region.x]; }

 private:
  size_t RowOffset(int channel, int y) const {
    return (size_t{1} * channel * region.height + (y - region.y)) * region.width;
  }
};

}  // namespace upscaled::reference
