#include "engine/graph/tile_geometry.h"

#include <algorithm>

#include "engine/base/int_math.h"

namespace upscaled {
namespace {

int ClampToSide(int v, int side) { return std::clamp(v, 0, side - 1); }

// A pixel at least, even where all of `out` lies in the padding. Reflected positions lie as far
// inside as they lay outside.
PixelRange PaddedRange(const Layer& layer, PixelRange out, int in_side) {
  PixelRange in{out.first - layer.padding_px, out.last - layer.padding_px};
  if (layer.pad_mode == PadMode::kReflect) {
    const int last = in_side - 1;
    in = {std::min(in.first, 2 * last - in.last), std::max(in.last, -in.first)};
  }
  return {ClampToSide(in.first, in_side), ClampToSide(in.last, in_side)};
}

}  // namespace

PixelRange InputRange(const Layer& layer, PixelRange out, int in_side, size_t input) {
  if (input > 0) return {out.first + layer.crop_px, out.last + layer.crop_px};
  switch (layer.op) {
    case Op::kConv:
      return {out.first * layer.stride_px - layer.padding_px,
              out.last * layer.stride_px - layer.padding_px + layer.kernel_px - 1};
    case Op::kConvTranspose:  // input i reaches outputs i * stride - padding + [0, kernel)
      return {CeilDiv(out.first + layer.padding_px - layer.kernel_px + 1, layer.stride_px),
              FloorDiv(out.last + layer.padding_px, layer.stride_px)};
    case Op::kPixelShuffle:
    case Op::kResizeNearest:
      return {out.first / layer.factor, out.last / layer.factor};
    case Op::kResizeBilinear: {  // output centre o + 1/2 lies at (o + 1/2) / factor of the input
      const int f = layer.factor;
      return {FloorDiv(2 * out.first + 1 - f, 2 * f), FloorDiv(2 * out.last + 1 - f, 2 * f) + 1};
    }
    case Op::kCrop:
      return {out.first + layer.crop_px, out.last + layer.crop_px};
    case Op::kPad:
      return PaddedRange(layer, out, in_side);
    default:
      return out;
  }
}

int PadSource(const Layer& layer, int at, int in_side) {
  const int position = at - layer.padding_px, period = 2 * (in_side - 1);
  if (layer.pad_mode == PadMode::kConstant) return position;
  if (layer.pad_mode == PadMode::kReplicate || period == 0) return ClampToSide(position, in_side);
  const int phase = position - FloorDiv(position, period) * period;
  return std::min(phase, period - phase);
}

int BlockBegin(int at, int block_px, int block_origin_px) {
  return FloorDiv(at - block_origin_px, block_px) * block_px + block_origin_px;
}

Rect SourceRect(const Network& network, const Rect& input_region, Size image) {
  const int x = ClampToSide(input_region.x - network.pad_px, image.width);
  const int y = ClampToSide(input_region.y - network.pad_px, image.height);
  const int right = ClampToSide(input_region.right() - 1 - network.pad_px, image.width) + 1;
  const int bottom = ClampToSide(input_region.bottom() - 1 - network.pad_px, image.height) + 1;
  return {x, y, right - x, bottom - y};
}

}  // namespace upscaled
