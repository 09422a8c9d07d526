#include "engine/backends/opencl/tile_tensors.h"

#include <algorithm>

#include "engine/backends/opencl/tensor.h"
#include "engine/base/int_math.h"
#include "engine/graph/tile_geometry.h"

namespace upscaled::opencl {

Rect RectRead(const Layer& layer, int block_px, const Rect& out, Size in) {
  const auto begin = [block_px](int first) { return first / block_px * block_px; };
  const auto last = [&](int end) { return begin(end - 1) + block_px - 1; };
  const PixelRange x = InputRange(layer, Axis::kX, {begin(out.x), last(out.right())}, in.width);
  const PixelRange y = InputRange(layer, Axis::kY, {begin(out.y), last(out.bottom())}, in.height);
  return {x.first, y.first, x.last - x.first + 1, y.last - y.first + 1};
}

std::vector<Rect> TensorRects(const Network& network, std::span<const int> block_px,
                              const TilePlan& plan) {
  std::vector<Rect> rects = plan.regions;
  for (size_t i = 1; i < network.layers.size(); ++i) {
    const Layer& layer = network.layers[i];
    const Rect& out = plan.regions[i];
    if (out.empty() || layer.op == Op::kGlobalAveragePool) continue;  // whose result is given
    for (size_t n = 0; n < layer.inputs.size(); ++n) {
      const int input = layer.inputs[n];
      const Size in = plan.layer_sizes[input];
      if (ReadsPerImage(layer, n, in)) continue;
      rects[input] = Cover(rects[input], RectRead(layer, block_px[i], out, in));
    }
  }
  return rects;
}

std::vector<size_t> SlotBytes(const Network& network, std::span<const int> slots,
                              std::span<const Rect> rects, Precision precision) {
  std::vector<size_t> bytes;
  for (size_t i = 0; i < slots.size(); ++i) {
    const size_t slot = slots[i];
    if (slot >= bytes.size()) bytes.resize(slot + 1);
    const size_t values = TensorValues(rects[i], network.layers[i].out_channels);
    bytes[slot] = std::max(bytes[slot], values * StorageBytes(precision));
  }
  return bytes;
}

}  // namespace upscaled::opencl
