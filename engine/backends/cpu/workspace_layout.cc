#include "engine/backends/cpu/workspace_layout.h"

#include <algorithm>

#include "engine/base/check.h"
#include "engine/graph/buffer_slots.h"

namespace upscaled::cpu {
namespace {

// Behind each plane: a row's last register tile may read (never use) pixels right of it, and others
// may write them meanwhile.
constexpr size_t kReadSlackFloats = 1024;

// Strides of an even number of cache lines put a block's rows and planes into few cache sets.
size_t OddCacheLines(size_t floats) {
  const size_t lines = (floats + 15) / 16;
  return (lines | 1) * 16;
}

// The rows and columns of a tensor: all that those need that share its planes.
struct Frame {
  Rect region;
  int ring_rows = 0;
};

// Indexed by home.
std::vector<Frame> FramesOf(const Program& program, const std::vector<Rect>& regions,
                            const std::vector<int>& ring_rows) {
  std::vector<Frame> frames(regions.size());
  for (size_t i = 0; i < frames.size(); ++i) {
    Frame& frame = frames[program.steps[i].home];
    frame.region = Cover(frame.region, regions[i]);
    frame.ring_rows = std::max(frame.ring_rows, ring_rows[i]);
  }
  return frames;
}

Tensor LayOut(const Program& program, int layer, const Frame& frame, Size size) {
  const Margin& margin = program.steps[program.steps[layer].home].margin;
  Tensor tensor;
  tensor.left_px = frame.region.x;
  tensor.layer_width_px = size.width;
  tensor.layer_height_px = size.height;
  tensor.ring_rows = frame.ring_rows;
  tensor.channels = program.network.layers[layer].out_channels;
  tensor.half = program.steps[layer].half;
  tensor.pixel_stride = program.steps[layer].pixel_stride;
  tensor.row_stride =
      OddCacheLines(static_cast<size_t>(margin.left_px + frame.region.width + margin.right_px) *
                    tensor.pixel_stride);
  tensor.plane_stride = OddCacheLines(tensor.row_stride * (frame.ring_rows + 1) + kReadSlackFloats);
  return tensor;
}

size_t FloatsOf(const Tensor& tensor) { return tensor.planes() * tensor.plane_stride; }

bool HasStorage(const Program& program, int layer) {
  return program.steps[layer].home == layer && !program.steps[layer].scaled_view;
}

bool Crosses(const Program& program, const RowSchedule& schedule, int layer) {
  return schedule.staged && program.steps[layer].crosses;
}

// Places what is kept from stage to stage from `begin` on, of the workspace or of the cache;
// returns where it ends.
size_t PlaceKept(const Program& program, size_t begin, RowSchedule& schedule) {
  std::vector<int> kept;
  std::vector<Lifetime> lifetimes;
  for (int i = 0; i < static_cast<int>(schedule.tensors.size()); ++i) {
    if (!Crosses(program, schedule, i)) continue;
    kept.push_back(i);
    lifetimes.push_back(
        {static_cast<int>(program.StageOf(i)), static_cast<int>(program.LastStageOf(i))});
  }
  const std::vector<int> slots = AssignSlots(lifetimes);
  std::vector<size_t> slot_floats;
  for (size_t i = 0; i < kept.size(); ++i) {
    const size_t slot = slots[i];
    slot_floats.resize(std::max(slot_floats.size(), slot + 1));
    slot_floats[slot] = std::max(slot_floats[slot], FloatsOf(schedule.tensors[kept[i]]));
  }
  std::vector<size_t> slot_begins;
  for (const size_t floats : slot_floats) {
    slot_begins.push_back(begin);
    begin += floats;
  }
  for (size_t i = 0; i < kept.size(); ++i) schedule.offsets[kept[i]] = slot_begins[slots[i]];
  return begin;
}

// Zeroes the columns right of `width_px` in a tensor's rows, and its zero row.
void ZeroAround(const Tensor& tensor, const Margin& margin, int width_px) {
  const size_t left = static_cast<size_t>(margin.left_px) * tensor.pixel_stride;
  const size_t right = static_cast<size_t>(margin.right_px) * tensor.pixel_stride;
  const size_t end = left + static_cast<size_t>(width_px) * tensor.pixel_stride;
  for (int plane = 0; plane < tensor.planes() && left + right > 0; ++plane) {
    float* row = tensor.data - left + plane * tensor.plane_stride;
    for (int slot = 0; slot < tensor.ring_rows; ++slot, row += tensor.row_stride) {
      std::fill_n(row, left, 0.0f);
      std::fill_n(row + end, right, 0.0f);
    }
    std::fill_n(row, tensor.row_stride, 0.0f);
  }
}

}  // namespace

void LayOutTensors(const Program& program, const TilePlan& plan, const std::vector<Rect>& regions,
                   const std::vector<int>& ring_rows, bool keeps, RowSchedule& schedule) {
  const std::vector<Frame> frames = FramesOf(program, regions, ring_rows);
  const int count = static_cast<int>(frames.size());
  for (int i = 0; i < count; ++i) {
    const Frame& frame = frames[program.steps[i].home];
    schedule.tensors.push_back(LayOut(program, i, frame, plan.layer_sizes[i]));
    schedule.widths_px.push_back(frame.region.width);
  }
  schedule.offsets.resize(count);
  size_t rings = OddCacheLines(program.scratch_floats);
  if (keeps) {
    schedule.cached_floats = PlaceKept(program, 0, schedule);
  } else {
    rings = PlaceKept(program, rings, schedule);
  }
  size_t end = rings;
  schedule.workspace_floats = rings;
  for (int i = 0; i < count; ++i) {
    const size_t stage = schedule.StageOf(program, i);
    if (i > 0 && stage != schedule.StageOf(program, i - 1)) end = rings;
    if (!HasStorage(program, i) || Crosses(program, schedule, i)) continue;
    size_t& place = keeps && program.steps[i].cached ? schedule.cached_floats : end;
    schedule.offsets[i] = place;
    place += FloatsOf(schedule.tensors[i]);
    schedule.workspace_floats = std::max(schedule.workspace_floats, end);
  }
}

void BindWorkspace(const Program& program, float* workspace, float* cache, RowSchedule& schedule) {
  std::vector<Tensor>& tensors = schedule.tensors;
  const int count = static_cast<int>(tensors.size());
  for (int i = 0; i < count; ++i) {
    if (!HasStorage(program, i)) continue;
    float* const storage =
        schedule.cached_floats > 0 && program.steps[i].cached ? cache : workspace;
    const size_t left =
        static_cast<size_t>(program.steps[i].margin.left_px) * tensors[i].pixel_stride;
    tensors[i].data = storage + schedule.offsets[i] + left;
  }
  for (int i = 0; i < count; ++i) {
    const Tensor& home = tensors[program.steps[i].home];
    if (&home != &tensors[i]) {
      tensors[i].data = home.data + program.steps[i].home_plane * home.plane_stride;
    }
  }
  for (int i = 0; i < count; ++i) {
    if (!program.steps[i].scaled_view) continue;
    const std::vector<int>& inputs = program.network.layers[i].inputs;
    const Tensor& factors = tensors[inputs[1]];
    tensors[i] = tensors[inputs[0]];
    if (factors.ring_rows == 0) continue;  // not of this pass, so that nobody reads the product
    UPSCALED_CHECK(!factors.half && (factors.layer_size() == Size{1, 1}));
    tensors[i].factors = factors.At(0, 0);
    tensors[i].factor_plane_stride = factors.plane_stride;
  }
}

void BeginStage(const Program& program, const RowSchedule& schedule, size_t stage) {
  for (int i = 0; i < static_cast<int>(schedule.tensors.size()); ++i) {
    if (!HasStorage(program, i) || schedule.StageOf(program, i) != stage) continue;
    ZeroAround(schedule.tensors[i], program.steps[i].margin, schedule.widths_px[i]);
  }
}

}  // namespace upscaled::cpu
