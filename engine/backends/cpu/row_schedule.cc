#include "engine/backends/cpu/row_schedule.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>

#include "engine/backends/cpu/workspace_layout.h"
#include "engine/graph/tile_geometry.h"
#include "engine/graph/tile_plan.h"
#include "engine/graph/windows.h"

namespace upscaled::cpu {
namespace {

// Output rows a tile asks for at once, where the last layer has no blocks of its own.
constexpr int kResultRows = 12;
static_assert(kResultRows % kPlainRows == 0);

// A strip of columns is narrow enough for rows of all its layers to be in the core's cache when
// they are read again, and wide enough for its blocks to use weights that come from beyond it.
constexpr size_t kStripRowBytes = size_t{64} << 10;
constexpr int kMinStripBlocks = 28;

PixelRange ColumnsOf(const Rect& region) { return {region.x, region.right() - 1}; }

// Walks the layers from a run's target backwards, on demand, and notes the steps and the most rows
// that any layer holds at a time.
class Scheduler {
 public:
  // `keeps`: as in ScheduleRows. `notes_steps`: or only counts them.
  Scheduler(const Program& program, const TilePlan& plan, bool staged, bool keeps, bool notes_steps)
      : notes_steps_(notes_steps),
        program_(program),
        plan_(plan),
        sizes_(plan.layer_sizes),
        staged_(staged),
        keeps_(keeps),
        runs_(plan.regions.size()),
        ring_rows_(plan.regions.size()) {
    for (const Rect& region : plan.regions) next_.push_back(region.y);
  }

  // Another pass, over these columns of its target, which finds what the ones before have cached.
  void Run(int target, PixelRange columns) {
    Begin({target}, columns);
    if (staged_) ComputeStages();
    Compute(target);
  }
  void Run(int target) { Run(target, ColumnsOf(plan_.regions[target])); }

  // Only pass number `stage` of a program with a stage for each: those before are over.
  void RunStage(size_t stage, int target) {
    std::vector<int> targets = {target};
    for (int i = 0; i < static_cast<int>(runs_.size()); ++i) {
      if (!program_.steps[i].crosses || program_.StageOf(i) > stage) continue;
      if (program_.StageOf(i) == stage) targets.push_back(i);
      next_[i] = plan_.regions[i].bottom();
    }
    // One column at least: all kept values are computed, even if nothing is to be added up.
    PixelRange columns = ColumnsOf(plan_.regions[target]);
    columns.last = std::max(columns.first, columns.last);
    Begin(targets, columns);
    for (const int computed : targets) Compute(computed);
  }

  // How many strips of the target's columns a run is best cut into.
  int StripCount(int target) {
    Begin({target}, ColumnsOf(plan_.regions[target]));
    size_t row_bytes = 0;  // of the layer with the longest ones
    int most = std::numeric_limits<int>::max();
    for (int i = 1; i < static_cast<int>(runs_.size()); ++i) {
      if (!runs_[i] || Finished(i) || program_.steps[i].kernel == nullptr) continue;
      const int width = regions_[i].width, block = program_.steps[i].block_px;
      const size_t value_bytes = program_.steps[i].half ? sizeof(uint16_t) : sizeof(float);
      const size_t pixel_bytes = program_.network.layers[i].out_channels * value_bytes;
      row_bytes = std::max(row_bytes, width * pixel_bytes);
      if (block > 1) most = std::min(most, width / (block * kMinStripBlocks));
    }
    return std::clamp(static_cast<int>(row_bytes / kStripRowBytes), 1, std::max(most, 1));
  }

  // The rows of each layer's ring in the last run.
  const std::vector<int>& ring_rows() const { return ring_rows_; }
  std::vector<RowSchedule::Step>& steps() { return steps_; }
  size_t step_count() const { return step_count_; }
  // The part of each layer that has room in its tensor.
  std::vector<Rect> StoredRegions() const {
    std::vector<Rect> stored = regions_;
    for (size_t i = 0; i < stored.size(); ++i) {
      if (Keeps(static_cast<int>(i))) stored[i] = plan_.regions[i];
    }
    return stored;
  }

 private:
  bool Keeps(int layer) const {
    return (staged_ && program_.steps[layer].crosses) || (keeps_ && program_.steps[layer].cached);
  }
  bool Finished(int layer) const { return next_[layer] >= regions_[layer].bottom(); }

  // The layers from which a run computes `layer`; the values of a global pooling are given.
  std::span<const int> InputsOf(int layer) const {
    const Layer& of = program_.network.layers[layer];
    return of.op == Op::kGlobalAveragePool ? std::span<const int>() : of.inputs;
  }

  // Targets are computed in all their rows, so that these can be added up, even where they were
  // cached; `columns`: of the first one.
  void Begin(const std::vector<int>& targets, PixelRange columns) {
    steps_.clear();
    step_count_ = 0;
    std::fill(runs_.begin(), runs_.end(), false);
    for (const int target : targets) {
      runs_[target] = true;
      next_[target] = plan_.regions[target].y;
    }
    regions_.assign(runs_.size(), Rect());
    for (int i = static_cast<int>(regions_.size()) - 1; i >= 0; --i) {
      regions_[i] = RegionToRun(i, targets.front(), columns);
      if (!Keeps(i)) next_[i] = regions_[i].y;
      ring_rows_[i] = Keeps(i) ? plan_.regions[i].height : 0;
      if (!runs_[i] || Finished(i)) continue;
      const Layer& layer = program_.network.layers[i];
      const std::span<const int> inputs = InputsOf(i);
      for (size_t n = 0; n < inputs.size(); ++n) {
        const Rect read = InputRegion(layer, regions_[i], sizes_[inputs[n]], n);
        regions_[inputs[n]] = Cover(regions_[inputs[n]], read);
        runs_[inputs[n]] = true;
      }
    }
  }

  // The part of `layer` that the run computes: whole blocks of the others' inputs (regions_ has
  // them), and, if it is the target or kept, also the columns' share of the target's, so that runs
  // over all of these compute all of it.
  Rect RegionToRun(int layer, int target, PixelRange columns) const {
    const Rect& whole = plan_.regions[layer];
    Rect region = regions_[layer];
    if (Keeps(layer) || layer == target) {
      const Rect& all = plan_.regions[target];
      const auto at = [&](int column) {
        return whole.x +
               static_cast<int>(int64_t{column - all.x} * whole.width / std::max(all.width, 1));
      };
      const int begin = at(columns.first), end = at(columns.last + 1);
      region = Cover(region, {begin, whole.y, end - begin, whole.height});
    }
    if (region.empty()) return {};
    return Intersect(
        RoundToBlocks(region, program_.steps[layer].block_px, program_.steps[layer].block_origin),
        whole);
  }

  // Computes all that later stages read, but for the last stage's.
  void ComputeStages() {
    int first = 0;
    for (const int cut : program_.cuts) {
      Compute(cut);
      for (int i = first; i < cut; ++i) {
        if (program_.steps[i].crosses) Compute(i);
      }
      first = cut + 1;
    }
  }

  // Computes all rows of `layer`.
  void Compute(int layer) {
    while (!Finished(layer)) Need(layer, next_[layer] + kResultRows);
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
      if (program_.steps[layer].IsView()) continue;
      const int first = std::max(rows.y, regions_[layer].y);
      ring_rows_[layer] =
          std::max(ring_rows_[layer], rows.bottom() - std::min(first, FirstRowInUse(layer)));
      ++step_count_;
      if (notes_steps_) steps_.push_back({layer, rows});
    }
  }

  Rect NextRows(int layer, int bottom) const {
    const Rect& region = regions_[layer];
    const int block = program_.steps[layer].block_px;
    if (IsOneStep(program_.network.layers[layer])) return region;
    if (program_.network.layers[layer].op == Op::kWindowAttention) {
      // One row of windows, the first of which may begin before the region.
      const Rect window = WindowAt(program_.network.layers[layer], region.x, next_[layer]);
      const int end = std::min(window.bottom(), region.bottom());
      return {window.x, next_[layer], region.right() - window.x, end - next_[layer]};
    }
    if (block == 1) {
      const int y = next_[layer];
      return {region.x, y, region.width, std::min(bottom, y + kPlainRows) - y};
    }
    // One row of blocks, the first of which may begin before the layer.
    const BlockOrigin origin = program_.steps[layer].block_origin;
    const int x = BlockBegin(region.x, block, origin.x_px);
    const int y = BlockBegin(next_[layer], block, origin.y_px);
    return {x, y, region.right() - x, std::min(y + block, region.bottom()) - y};
  }

  // The rows of the layer's input number `input` that `rows` need.
  PixelRange Reads(int layer, size_t input, PixelRange rows) const {
    const Layer& reader = program_.network.layers[layer];
    return InputRange(reader, Axis::kY, rows, sizes_[reader.inputs[input]].height, input);
  }

  // The first row of `layer` that a consumer has yet to read.
  int FirstRowInUse(int layer) const {
    int first = next_[layer];
    for (const int consumer : program_.steps[layer].consumers) {
      if (!runs_[consumer]) continue;
      if (program_.ReadsThrough(layer, consumer)) {
        first = std::min(first, FirstRowInUse(consumer));
        continue;
      }
      if (Finished(consumer)) continue;
      const PixelRange left{next_[consumer], regions_[consumer].bottom() - 1};
      const std::vector<int>& inputs = program_.network.layers[consumer].inputs;
      for (size_t n = 0; n < inputs.size(); ++n) {
        if (inputs[n] == layer) first = std::min(first, Reads(consumer, n, left).first);
      }
    }
    return std::max(first, regions_[layer].y);
  }

  const bool notes_steps_;
  const Program& program_;
  const TilePlan& plan_;
  const std::vector<Size>& sizes_;
  const bool staged_;
  const bool keeps_;
  std::vector<Rect> regions_;  // what the run computes of each layer
  std::vector<int> next_;      // row to compute next
  std::vector<bool> runs_;     // the layers on which the run's target depends
  std::vector<int> ring_rows_;
  std::vector<RowSchedule::Step> steps_;
  size_t step_count_ = 0;
};

// The layer that pass number `pass` is for.
int TargetOf(const Program& program, size_t pass) {
  const std::vector<Layer>& layers = program.network.layers;
  if (pass == program.poolings.size()) return static_cast<int>(layers.size()) - 1;
  return layers[program.poolings[pass]].inputs[0];
}

// `schedule`: of the scheduler's last run, without its steps and tensors.
RowSchedule TakeSchedule(const Program& program, const TilePlan& plan, bool keeps,
                         Scheduler& scheduler, RowSchedule schedule) {
  schedule.steps = std::move(scheduler.steps());
  schedule.step_count = scheduler.step_count();
  LayOutTensors(program, plan, scheduler.StoredRegions(), scheduler.ring_rows(), keeps, schedule);
  return schedule;
}

// `notes_steps`: as in Scheduler.
RowSchedule Schedule(const Program& program, const TilePlan& plan, size_t pass, bool staged,
                     bool keeps, bool notes_steps) {
  RowSchedule schedule;
  schedule.staged = staged;
  schedule.target = TargetOf(program, pass);
  Scheduler scheduler(program, plan, staged, keeps, notes_steps);
  if (staged && keeps) {
    schedule.first_stage = pass;
    scheduler.RunStage(pass, schedule.target);
  } else {
    for (size_t run = keeps ? 0 : pass; run <= pass; ++run) scheduler.Run(TargetOf(program, run));
  }
  return TakeSchedule(program, plan, keeps, scheduler, std::move(schedule));
}

// As ScheduleRows.
RowSchedule ScheduleBest(const Program& program, const TilePlan& plan, size_t pass, bool keeps,
                         bool notes_steps) {
  if (program.HasStageForEachPass()) {
    return Schedule(program, plan, pass, /*staged=*/keeps, keeps, notes_steps);
  }
  if (!program.cuts.empty()) {
    RowSchedule staged = Schedule(program, plan, pass, /*staged=*/true, keeps, notes_steps);
    if (staged.workspace_floats * sizeof(float) <= kMaxWorkspaceBytes) return staged;
  }
  return Schedule(program, plan, pass, /*staged=*/false, keeps, notes_steps);
}

}  // namespace

int RowsAtOnce(const Program& program, int layer) {
  const Layer& of = program.network.layers[layer];
  if (of.op == Op::kWindowAttention) return of.window_y.window_px;
  return std::max(program.steps[layer].block_px, kPlainRows);
}

TilePlan PlanTile(const Program& program, Size image, const Rect& tile) {
  std::vector<int> block_px;
  std::vector<BlockOrigin> block_origins;
  for (const Step& step : program.steps) {
    block_px.push_back(step.block_px);
    block_origins.push_back(step.block_origin);
  }
  return PlanTile(program.network, image, tile, block_px, block_origins);
}

RowSchedule ScheduleRows(const Program& program, const TilePlan& plan, size_t pass, bool keeps) {
  return ScheduleBest(program, plan, pass, keeps, /*notes_steps=*/true);
}

RowSchedule MeasureRows(const Program& program, const TilePlan& plan, size_t pass, bool keeps) {
  return ScheduleBest(program, plan, pass, keeps, /*notes_steps=*/false);
}

std::vector<RowSchedule> ScheduleStrips(const Program& program, const TilePlan& plan, size_t pass) {
  std::vector<RowSchedule> strips;
  if (!program.cuts.empty()) {
    strips.push_back(ScheduleRows(program, plan, pass, /*keeps=*/true));
    return strips;
  }
  const int target = TargetOf(program, pass);
  const Rect& all = plan.regions[target];
  Scheduler before(program, plan, /*staged=*/false, /*keeps=*/true, /*notes_steps=*/true);
  for (size_t run = 0; run < pass; ++run) before.Run(TargetOf(program, run));
  const int count = before.StripCount(target);
  for (int i = 1, begin = all.x; i <= count; ++i) {
    const int even = all.x + static_cast<int>(int64_t{all.width} * i / count);
    const int end = i == count ? even
                               : BlockBegin(even, program.steps[target].block_px,
                                            program.steps[target].block_origin.x_px);
    if (end <= begin && i < count) continue;
    Scheduler strip = before;
    strip.Run(target, {begin, end - 1});
    RowSchedule schedule;
    schedule.target = target;
    strips.push_back(TakeSchedule(program, plan, /*keeps=*/true, strip, std::move(schedule)));
    begin = end;
  }
  return strips;
}

}  // namespace upscaled::cpu
