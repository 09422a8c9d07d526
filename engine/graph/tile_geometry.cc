#include "engine/graph/tile_geometry.h"

#include <algorithm>

#include "engine/base/int_math.h"

namespace upscaled {
namespace {

int ClampToSide(int v, int side) { return std::clamp(v, 0, side - 1); }

}  // namespace

PixelRange InputRange(const Layer& layer, Axis axis, PixelRange out, int in_side, size_t input) {
  const Operation& operation = OperationOf(layer.op);
  if (input > 0 && operation.resizes_second) return {0, in_side - 1};
  if (input > 0) {
    const int factor = operation.second_as_first ? layer.factor : layer.residual_factor;
    const auto read = [&](int at) { return FloorDiv(at, factor) + layer.crop_px; };
    return {read(out.first), read(out.last)};
  }
  return operation.input_range(layer, axis, out, in_side);
}

bool ReadsPerImage(const Layer& layer, size_t input, Size in_size) {
  const Operation& operation = OperationOf(layer.op);
  return in_size == Size{1, 1} && (operation.scales_per_image || operation.takes_moments) &&
         input > 0;
}

int PadSource(const Layer& layer, int at, int in_side) {
  const int position = at - layer.padding_px, period = 2 * (in_side - 1);
  if (layer.pad_mode == PadMode::kConstant) return position;
  if (layer.pad_mode == PadMode::kWrap) return position - FloorDiv(position, in_side) * in_side;
  if (layer.pad_mode == PadMode::kReplicate || period == 0) return ClampToSide(position, in_side);
  const int phase = position - FloorDiv(position, period) * period;
  return std::min(phase, period - phase);
}

int BlockBegin(int at, int block_px, int origin_px) {
  return FloorDiv(at - origin_px, block_px) * block_px + origin_px;
}

Rect RoundToBlocks(const Rect& r, int block_px, BlockOrigin origin) {
  const auto begin = [&](int at, int from) { return BlockBegin(at, block_px, from); };
  const auto end = [&](int at, int from) { return begin(at - 1, from) + block_px; };
  const int x = begin(r.x, origin.x_px), y = begin(r.y, origin.y_px);
  return {x, y, end(r.right(), origin.x_px) - x, end(r.bottom(), origin.y_px) - y};
}

Rect InputRegion(const Layer& layer, const Rect& out, Size in_size, size_t input) {
  if (layer.op == Op::kGlobalAveragePool) return {};
  const Rect whole{0, 0, in_size.width, in_size.height};
  if (ReadsPerImage(layer, input, in_size)) return whole;
  const PixelRange x = InputRange(layer, Axis::kX, {out.x, out.right() - 1}, in_size.width, input);
  const PixelRange y =
      InputRange(layer, Axis::kY, {out.y, out.bottom() - 1}, in_size.height, input);
  const Rect read{x.first, y.first, x.last - x.first + 1, y.last - y.first + 1};
  return Intersect(read, whole);
}

Rect SourceRect(const Network& network, const Rect& input_region, Size image) {
  const int x = ClampToSide(input_region.x - network.pad_px, image.width);
  const int y = ClampToSide(input_region.y - network.pad_px, image.height);
  const int right = ClampToSide(input_region.right() - 1 - network.pad_px, image.width) + 1;
  const int bottom = ClampToSide(input_region.bottom() - 1 - network.pad_px, image.height) + 1;
  return {x, y, right - x, bottom - y};
}

}  // namespace upscaled
