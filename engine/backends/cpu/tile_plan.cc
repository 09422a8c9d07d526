#include "engine/backends/cpu/tile_plan.h"

#include <algorithm>
#include <span>
#include <utility>

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

// Walks the layers from a run's target backwards, on demand, and notes the steps and the most rows
// that any layer holds at a time.
class Scheduler {
 public:
  // `sizes`: of each layer's whole output. `keeps`: as in PlanTile.
  Scheduler(const Program& program, const std::vector<Rect>& regions,
            const std::vector<Size>& sizes, bool keeps)
      : program_(program),
        regions_(regions),
        sizes_(sizes),
        keeps_(keeps),
        runs_(regions.size()),
        ring_rows_(regions.size()) {
    for (const Rect& region : regions) next_.push_back(region.y);
  }

  // Another run, which finds what the ones before have kept.
  void Run(int target) {
    Begin(target);
    while (!Finished(target)) Need(target, next_[target] + kResultRows);
  }

  // Of the last run; rows of each layer's ring.
  const std::vector<int>& ring_rows() const { return ring_rows_; }
  std::vector<TilePlan::Step>& steps() { return steps_; }

 private:
  bool Keeps(int layer) const { return keeps_ && program_.kept[layer]; }
  bool Finished(int layer) const { return next_[layer] >= regions_[layer].bottom(); }

  // What a run computes `layer` from; the values of a global pooling are given.
  std::span<const int> InputsOf(int layer) const {
    const Layer& of = program_.network.layers[layer];
    return of.op == Op::kGlobalAveragePool ? std::span<const int>() : of.inputs;
  }

  // The target is computed whole, so that all of it can be added up, even where it was kept.
  void Begin(int target) {
    steps_.clear();
    std::fill(runs_.begin(), runs_.end(), false);
    runs_[target] = true;
    for (int i = static_cast<int>(regions_.size()) - 1; i >= 0; --i) {
      if (!Keeps(i) || i == target) next_[i] = regions_[i].y;
      ring_rows_[i] = Keeps(i) ? regions_[i].height : 0;
      if (!runs_[i] || Finished(i)) continue;
      for (const int input : InputsOf(i)) runs_[input] = true;
    }
  }

  // Computes rows of `layer` up to `bottom`, or its region's end.
  void Need(int layer, int bottom) {
    bottom = std::min(bottom, regions_[layer].bottom());
    while (next_[layer] < bottom) {
      const Rect rows = NextRows(layer, bottom);
      const std::span<const int> inputs = InputsOf(layer);
      for (size_t n = 0; n < inputs.size(); ++n) {
        Need(inputs[n], Reads(layer, n, {rows.y, rows.bottom() - 1}).last + 1);
      }
      next_[layer] = rows.bottom();
      const int first = std::max(rows.y, regions_[layer].y);
      ring_rows_[layer] =
          std::max(ring_rows_[layer], rows.bottom() - std::min(first, FirstRowInUse(layer)));
      steps_.push_back({layer, rows});
    }
  }

  Rect NextRows(int layer, int bottom) const {
    const Rect& region = regions_[layer];
    const int block = program_.block_px[layer];
    if (block == 1) {
      const int y = next_[layer];
      return {region.x, y, region.width, std::min(bottom, y + kPlainRows) - y};
    }
    // One row of blocks, the first of which may begin before the layer.
    const int origin = program_.block_origin_px[layer];
    const int x = BlockBegin(region.x, block, origin), y = BlockBegin(next_[layer], block, origin);
    return {x, y, region.right() - x, std::min(y + block, region.bottom()) - y};
  }

  // Of the layer's input number `input`.
  PixelRange Reads(int layer, size_t input, PixelRange rows) const {
    const Layer& reader = program_.network.layers[layer];
    return InputRange(reader, rows, sizes_[reader.inputs[input]].height, input);
  }

  // The first row of `layer` that a consumer has yet to read.
  int FirstRowInUse(int layer) const {
    int first = next_[layer];
    for (const int consumer : program_.consumers[layer]) {
      if (!runs_[consumer] || Finished(consumer)) continue;
      const PixelRange left{next_[consumer], regions_[consumer].bottom() - 1};
      const std::vector<int>& inputs = program_.network.layers[consumer].inputs;
      for (size_t n = 0; n < inputs.size(); ++n) {
        if (inputs[n] == layer) first = std::min(first, Reads(consumer, n, left).first);
      }
    }
    return std::max(first, regions_[layer].y);
  }

  const Program& program_;
  const std::vector<Rect>& regions_;
  const std::vector<Size>& sizes_;
  const bool keeps_;
  std::vector<int> next_;   // row to compute next
  std::vector<bool> runs_;  // what the run's target depends on
  std::vector<int> ring_rows_;
  std::vector<TilePlan::Step> steps_;
};

// The layer that the run with so many known means is for.
int TargetOf(const Program& program, size_t known_means) {
  const std::vector<Layer>& layers = program.network.layers;
  if (known_means == program.poolings.size()) return static_cast<int>(layers.size()) - 1;
  return layers[program.poolings[known_means]].inputs[0];
}

Tensor LayOut(const Program& program, size_t layer, const Rect& region, Size size, int ring_rows) {
  const Margin& margin = program.margin[layer];
  Tensor tensor;
  tensor.left_px = region.x;
  tensor.layer_width_px = size.width;
  tensor.layer_height_px = size.height;
  tensor.ring_rows = ring_rows;
  tensor.channels = program.network.layers[layer].out_channels;
  tensor.half = program.half[layer];
  tensor.pixel_stride = program.pixel_stride[layer];
  tensor.row_stride = OddCacheLines(
      static_cast<size_t>(margin.left_px + region.width + margin.right_px) * tensor.pixel_stride);
  tensor.plane_stride = OddCacheLines(tensor.row_stride * (ring_rows + 1));
  return tensor;
}

}  // namespace

TilePlan PlanTile(const Program& program, Size image, const Rect& tile, size_t known_means,
                  bool keeps) {
  TilePlan plan;
  plan.target = TargetOf(program, known_means);
  plan.regions = RegionsOf(program, image, tile);
  const std::vector<Size> sizes = LayerSizes(program.network, image);
  Scheduler scheduler(program, plan.regions, sizes, keeps);
  for (size_t run = keeps ? 0 : known_means; run <= known_means; ++run) {
    scheduler.Run(TargetOf(program, run));
  }
  plan.steps = std::move(scheduler.steps());
  plan.workspace_floats = OddCacheLines(program.scratch_floats);
  for (size_t i = 0; i < plan.regions.size(); ++i) {
    plan.tensors.push_back(LayOut(program, i, plan.regions[i], sizes[i], scheduler.ring_rows()[i]));
    (keeps && program.kept[i] ? plan.memory_floats : plan.workspace_floats) +=
        plan.tensors[i].planes() * plan.tensors[i].plane_stride;
  }
  plan.workspace_floats += kReadSlackFloats;
  if (plan.memory_floats > 0) plan.memory_floats += kReadSlackFloats;
  return plan;
}

std::vector<Rect> RegionsOf(const Program& program, Size image, const Rect& tile) {
  return LayerRegions(program.network, image, tile, program.block_px, program.block_origin_px);
}

Rect SourceOf(const Program& program, Size image, const Rect& tile) {
  return SourceRect(program.network, RegionsOf(program, image, tile)[0], image);
}

void BindWorkspace(const Program& program, float* workspace, TilePlan& plan, float* memory) {
  workspace += OddCacheLines(program.scratch_floats);
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    Tensor& t = plan.tensors[i];
    float*& storage = plan.memory_floats > 0 && program.kept[i] ? memory : workspace;
    const size_t left = static_cast<size_t>(program.margin[i].left_px) * t.pixel_stride;
    const size_t right = static_cast<size_t>(program.margin[i].right_px) * t.pixel_stride;
    t.data = storage + left;
    for (int plane = 0; plane < t.planes() && left + right > 0; ++plane) {
      float* row = storage + plane * t.plane_stride;
      for (int slot = 0; slot < t.ring_rows; ++slot, row += t.row_stride) {
        std::fill_n(row, left, 0.0f);
        const size_t end = left + static_cast<size_t>(plan.regions[i].width) * t.pixel_stride;
        std::fill_n(row + end, right, 0.0f);
      }
      std::fill_n(row, t.row_stride, 0.0f);
    }
    storage += t.planes() * t.plane_stride;
  }
}

}  // namespace upscaled::cpu
