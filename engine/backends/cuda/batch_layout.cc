#include "engine/backends/cuda/batch_layout.h"

#include <algorithm>
#include <cstdint>

#include "engine/backends/cuda/kernels/tensor_view.h"

namespace upscaled::cuda {
namespace {

constexpr size_t kAlignment = 256;  // for every piece: as cudaMalloc aligns

// Takes pieces from the front of memory.
class Pieces {
 public:
  size_t Take(size_t bytes) {
    const size_t begin = end_;
    end_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return begin;
  }
  size_t end() const { return end_; }

 private:
  size_t end_ = 0;
};

// Channels of a pooling, filled up to planes.
size_t PooledChannels(const Program& program, size_t pooling) {
  const int layer = program.poolings[pooling];
  return static_cast<size_t>(PlaneCount(program.network.layers[layer].out_channels)) *
         kPlaneChannels;
}

size_t ResultBytes(const Program& program, const PlacedTile& plan, const BatchShape& shape) {
  if (shape.gathers) {
    const size_t strips = SumStrips(plan.partial_sum_rects[shape.known_means]).size();
    return strips * shape.tiles * PooledChannels(program, shape.known_means) * sizeof(int64_t);
  }
  const Rect result = Scale(plan.place.tile, program.network.scale);
  return static_cast<size_t>(result.Area()) * kRgbChannels * SampleBytes(shape.dst_type) *
         shape.tiles;
}

}  // namespace

BatchLayout LayOut(const Program& program, const PlacedTile& plan, Precision precision,
                   const BatchShape& shape) {
  const size_t tiles = shape.tiles;
  BatchLayout layout;
  Pieces pieces;
  for (size_t i = 0; i < shape.known_means; ++i) {
    layout.means.push_back(pieces.Take(tiles * PooledChannels(program, i) * sizeof(float)));
  }
  layout.source = pieces.end();
  layout.sent_bytes = layout.source + static_cast<size_t>(plan.source.Area()) * tiles *
                                          shape.src_channels * SampleBytes(shape.src_type);
  pieces.Take(layout.sent_bytes - layout.source);
  layout.result = pieces.Take(ResultBytes(program, plan, shape));
  layout.lost = pieces.Take((tiles + 1) * sizeof(uint32_t));
  layout.gave_up = layout.lost + tiles * sizeof(uint32_t);
  layout.zeroed = shape.gathers ? layout.result : layout.lost;
  layout.received_bytes = layout.gave_up + sizeof(uint32_t) - layout.result;
  layout.gated = pieces.Take(program.gated_bytes);
  layout.tensors = pieces.end();
  for (const size_t bytes : SlotBytes(program, plan, precision)) {
    layout.slots.push_back(pieces.Take(bytes * tiles) - layout.tensors);
  }
  layout.bytes = pieces.end();
  return layout;
}

std::vector<Rect> SumStrips(const Rect& part) {
  std::vector<Rect> strips;
  if (part.empty()) return strips;
  const int rows = std::max(1, static_cast<int>(kMaxSummedPixels / part.width));
  for (int y = part.y; y < part.bottom(); y += rows) {
    strips.push_back({part.x, y, part.width, std::min(rows, part.bottom() - y)});
  }
  return strips;
}

}  // namespace upscaled::cuda
