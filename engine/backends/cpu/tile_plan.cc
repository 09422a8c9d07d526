#include "engine/backends/cpu/tile_plan.h"

#include <algorithm>

#include "engine/graph/tile_geometry.h"

namespace upscaled::cpu {
namespace {

// Output rows a tile asks for at once, where the last layer has no blocks of its own.
constexpr int kResultRows = 12;

// Behind the last ring: a row's last register tile may read (never use) pixels right of it.
constexpr size_t kReadSlackFloats = 1024;

// Strides of an even number of cache lines put a block's rows and planes into few cache sets.
size_t OddCacheLines(size_t floats) {
  const size_t lines = (floats + 15) / 16;
  return (lines | 1) * 16;
}

// Walks the layers from the result backwards, on demand, and notes the steps and the most rows that
// any layer holds at a time.
class Scheduler {
 public:
  // `sizes`: of each layer's whole output.
  Scheduler(const Program& program, const std::vector<Rect>& regions,
            const std::vector<Size>& sizes, std::vector<TilePlan::Step>& steps)
      : program_(program),
        regions_(regions),
        sizes_(sizes),
        steps_(steps),
        ring_rows_(regions.size(), 0) {
    for (const Rect& region : regions) next_.push_back(region.y);
  }

  // Rows of each layer's ring.
  std::vector<int> Run() {
    const int last = static_cast<int>(regions_.size()) - 1;
    while (next_[last] < regions_[last].bottom()) Need(last, next_[last] + kResultRows);
    return ring_rows_;
  }

 private:
  // Computes rows of `layer` up to `bottom`, or its region's end.
  void Need(int layer, int bottom) {
    bottom = std::min(bottom, regions_[layer].bottom());
    while (next_[layer] < bottom) {
      const Rect rows = NextRows(layer, bottom);
      for (const int input : program_.network.layers[layer].inputs) {
        Need(input, Reads(layer, {rows.y, rows.bottom() - 1}).last + 1);
      }
      next_[layer] = rows.bottom();
      ring_rows_[layer] =
          std::max(ring_rows_[layer], rows.bottom() - std::min(rows.y, FirstRowInUse(layer)));
      steps_.push_back({layer, rows});
    }
  }

  Rect NextRows(int layer, int bottom) const {
    const Rect& region = regions_[layer];
    const int block = program_.block_px[layer], y = next_[layer];
    // Blocks count from the layer's origin; one row of them at a time.
    if (block > 1) bottom = std::min((y / block + 1) * block, region.bottom());
    return {region.x, y, region.width, bottom - y};
  }

  PixelRange Reads(int layer, PixelRange rows) const {
    const Layer& reader = program_.network.layers[layer];
    return InputRange(reader, rows, sizes_[reader.inputs[0]].height);
  }

  // The first row of `layer` that a consumer has yet to read.
  int FirstRowInUse(int layer) const {
    int first = next_[layer];
    for (const int consumer : program_.consumers[layer]) {
      if (next_[consumer] >= regions_[consumer].bottom()) continue;
      const PixelRange left{next_[consumer], regions_[consumer].bottom() - 1};
      first = std::min(first, Reads(consumer, left).first);
    }
    return std::max(first, regions_[layer].y);
  }

  const Program& program_;
  const std::vector<Rect>& regions_;
  const std::vector<Size>& sizes_;
  std::vector<TilePlan::Step>& steps_;
  std::vector<int> next_;  // row to compute next
  std::vector<int> ring_rows_;
};

Tensor LayOut(const Program& program, size_t layer, const Rect& region, Size size, int ring_rows) {
  const Margin& margin = program.margin[layer];
  Tensor tensor;
  tensor.left_px = region.x;
  tensor.layer_width_px = size.width;
  tensor.layer_height_px = size.height;
  tensor.ring_rows = ring_rows;
  tensor.channels = program.network.layers[layer].out_channels;
  tensor.pixel_stride = program.pixel_stride[layer];
  tensor.row_stride = OddCacheLines(
      static_cast<size_t>(margin.left_px + region.width + margin.right_px) * tensor.pixel_stride);
  tensor.plane_stride = OddCacheLines(tensor.row_stride * (ring_rows + 1));
  return tensor;
}

}  // namespace

TilePlan PlanTile(const Program& program, Size image, const Rect& tile) {
  TilePlan plan;
  plan.regions = LayerRegions(program.network, image, tile, program.block_px);
  const std::vector<Size> sizes = LayerSizes(program.network, image);
  const std::vector<int> ring_rows = Scheduler(program, plan.regions, sizes, plan.steps).Run();
  plan.workspace_floats = OddCacheLines(program.scratch_floats);
  for (size_t i = 0; i < plan.regions.size(); ++i) {
    plan.tensors.push_back(LayOut(program, i, plan.regions[i], sizes[i], ring_rows[i]));
    plan.workspace_floats += plan.tensors[i].planes() * plan.tensors[i].plane_stride;
  }
  plan.workspace_floats += kReadSlackFloats;
  return plan;
}

void BindWorkspace(const Program& program, float* workspace, TilePlan& plan) {
  float* ring = workspace + OddCacheLines(program.scratch_floats);
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    Tensor& t = plan.tensors[i];
    const size_t left = static_cast<size_t>(program.margin[i].left_px) * t.pixel_stride;
    const size_t right = static_cast<size_t>(program.margin[i].right_px) * t.pixel_stride;
    t.data = ring + left;
    for (int plane = 0; plane < t.planes() && left + right > 0; ++plane) {
      float* row = ring + plane * t.plane_stride;
      for (int slot = 0; slot < t.ring_rows; ++slot, row += t.row_stride) {
        std::fill_n(row, left, 0.0f);
        const size_t end = left + static_cast<size_t>(plan.regions[i].width) * t.pixel_stride;
        std::fill_n(row + end, right, 0.0f);
      }
      std::fill_n(row, t.row_stride, 0.0f);
    }
    ring += t.planes() * t.plane_stride;
  }
}

}  // namespace upscaled::cpu
