#include "engine/graph/tile_geometry.h"

#include <algorithm>

#include "engine/base/int_math.h"
#include "engine/graph/pooling.h"

namespace upscaled {
namespace {

Rect Whole(Size size) { return {0, 0, size.width, size.height}; }

Rect RoundOutward(const Rect& r, int block, int origin) {
  const auto begin = [&](int at) { return BlockBegin(at, block, origin); };
  const auto end = [&](int at) { return begin(at - 1) + block; };
  return {begin(r.x), begin(r.y), end(r.right()) - begin(r.x), end(r.bottom()) - begin(r.y)};
}

// The part of input number `input`, of size `in_size`, that `layer` reads to compute `out`; a
// global pooling's result is given.
Rect InputRegion(const Layer& layer, const Rect& out, Size in_size, size_t input) {
  if (layer.op == Op::kGlobalAveragePool) return {};
  const bool one_value_per_channel = layer.op == Op::kMul && in_size == Size{1, 1};
  if (one_value_per_channel) return Whole(in_size);
  const PixelRange x = InputRange(layer, {out.x, out.right() - 1}, in_size.width, input);
  const PixelRange y = InputRange(layer, {out.y, out.bottom() - 1}, in_size.height, input);
  const Rect read{x.first, y.first, x.last - x.first + 1, y.last - y.first + 1};
  return Intersect(read, Whole(in_size));
}

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

std::vector<Rect> LayerRegions(const Network& network, Size image, const Rect& tile,
                               std::span<const int> block_px,
                               std::span<const int> block_origin_px) {
  const std::vector<Size> sizes = LayerSizes(network, image);
  std::vector<Rect> regions(network.layers.size());
  regions.back() = Scale(tile, network.scale);
  for (const int pooling : ListPoolings(network)) {
    Rect& pooled = regions[network.layers[pooling].inputs[0]];
    pooled = Cover(pooled, PooledShare(network, pooling, image, tile));
  }
  for (size_t i = network.layers.size(); i-- > 0;) {
    if (regions[i].empty()) continue;
    const int block = block_px.empty() ? 1 : block_px[i];
    const int origin = block_origin_px.empty() ? 0 : block_origin_px[i];
    regions[i] = Intersect(RoundOutward(regions[i], block, origin), Whole(sizes[i]));
    const Layer& layer = network.layers[i];
    for (size_t n = 0; n < layer.inputs.size(); ++n) {
      const int input = layer.inputs[n];
      regions[input] = Cover(regions[input], InputRegion(layer, regions[i], sizes[input], n));
    }
  }
  return regions;
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
