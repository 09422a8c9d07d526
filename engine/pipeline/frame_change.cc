#include "engine/pipeline/frame_change.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/int_math.h"
#include "engine/pipeline/cell_cover.h"

namespace upscaled {
namespace {

// Small enough to follow an outline.
constexpr int kMinCellPx = 8;
// A part's plan and the small tiles of its sides cost as much as these pixels.
constexpr double kPartCostPx = 4096;
// Parts must cost no more than this of the frame.
constexpr double kMaxPartsShare = 0.9;

int CellPx(const Locality& locality) {
  return RoundUp(kMinCellPx, std::max(locality.repeat_px, 1));
}

// [0, length) cut at the multiples of `cell_px`.
std::vector<int> CutIntoCells(int length, int cell_px) {
  std::vector<int> cuts;
  for (int at = 0; at < length; at += cell_px) cuts.push_back(at);
  cuts.push_back(length);
  return cuts;
}

// Marks all entries up to `distance` before and after a marked one. Entries lie `step` apart.
void Widen(uint8_t* marks, int count, int step, int distance) {
  const auto sweep = [&](int begin, int direction) {
    int left = 0;  // entries that are still to be marked
    for (int i = 0; i < count; ++i) {
      uint8_t& mark = marks[static_cast<ptrdiff_t>(begin + direction * i) * step];
      left = mark == 1 ? distance : left - 1;
      if (left >= 0 && mark == 0) mark = 2;
    }
  };
  // A mark that was made by the first sweep, 2, is not widened by the second one.
  sweep(0, 1);
  sweep(count - 1, -1);
  for (int i = 0; i < count; ++i) {
    uint8_t& mark = marks[static_cast<ptrdiff_t>(i) * step];
    mark = mark != 0;
  }
}

// The cost of computing a rectangle by its cut-out, in source pixels.
RectCost CostOfParts(int reach_px) {
  const double reach = reach_px;
  return {.per_px = 1, .per_side_px = 2 * reach, .fixed = 4 * reach * reach + kPartCostPx};
}

}  // namespace

FrameChange::FrameChange(Size frame, const Locality& locality)
    : frame_(frame),
      locality_(locality),
      cell_px_(CellPx(locality)),
      columns_px_(CutIntoCells(frame.width, cell_px_)),
      rows_px_(CutIntoCells(frame.height, cell_px_)) {}

size_t FrameChange::Bytes(Size frame) {
  const auto columns = static_cast<size_t>(CeilDiv(frame.width, kMinCellPx)) + 1;
  const auto rows = static_cast<size_t>(CeilDiv(frame.height, kMinCellPx)) + 1;
  // Marks, and what CoverNeededCells takes; lines, twice; vectors double.
  return kCellCoverBytes + columns * rows * 12 + 4 * (columns + rows) * sizeof(int);
}

std::vector<uint8_t> FrameChange::ChangedCells(ImageView before, ImageView frame) const {
  const size_t columns = columns_px_.size() - 1, rows = rows_px_.size() - 1;
  const size_t row_bytes = frame.spec.row_bytes(), pixel_bytes = frame.spec.pixel_bytes();
  std::vector<uint8_t> changed(columns * rows);
  for (int y = 0; y < frame_.height; ++y) {
    const uint8_t *old_row = before.row(y), *new_row = frame.row(y);
    if (std::memcmp(old_row, new_row, row_bytes) == 0) continue;
    uint8_t* const cells = &changed[static_cast<size_t>(y / cell_px_) * columns];
    for (size_t x = 0; x < columns; ++x) {
      const size_t begin = static_cast<size_t>(columns_px_[x]) * pixel_bytes;
      const size_t end = static_cast<size_t>(columns_px_[x + 1]) * pixel_bytes;
      if (cells[x] == 0 && std::memcmp(old_row + begin, new_row + begin, end - begin) != 0)
        cells[x] = 1;
    }
  }
  return changed;
}

Rect FrameChange::CutOutFor(const Rect& area) const {
  const int period = locality_.repeat_px, reach = locality_.reach_px;
  // Both corners lie in the blocks as the frame's do, since images may be turned (TTA).
  const auto begin = [&](int at) { return std::max(FloorDiv(at - reach, period) * period, 0); };
  const auto end = [&](int at, int length) {
    return length - std::max(FloorDiv(length - at - reach, period) * period, 0);
  };
  const int x = begin(area.x), y = begin(area.y);
  return {x, y, end(area.right(), frame_.width) - x, end(area.bottom(), frame_.height) - y};
}

std::vector<ChangedPart> FrameChange::PartsOf(ImageView before, ImageView frame) const {
  const int columns = static_cast<int>(columns_px_.size()) - 1;
  const int rows = static_cast<int>(rows_px_.size()) - 1;
  const Rect all{0, 0, frame_.width, frame_.height};
  std::vector<uint8_t> marks = ChangedCells(before, frame);
  if (std::ranges::count(marks, 1) == 0) return {};
  if (!locality_.local()) return {{all, all}};

  const int distance = CeilDiv(locality_.reach_px, cell_px_);
  for (int y = 0; y < rows; ++y)
    Widen(&marks[static_cast<size_t>(y) * columns], columns, 1, distance);
  for (int x = 0; x < columns; ++x) Widen(&marks[x], rows, columns, distance);

  const RectCost cost = CostOfParts(locality_.reach_px);
  std::vector<ChangedPart> parts;
  double cost_of_parts = 0;
  for (const Rect& area : CoverNeededCells({columns_px_, rows_px_, std::move(marks)}, cost)) {
    parts.push_back({area, CutOutFor(area)});
    cost_of_parts += cost.Of(area.size());
  }
  if (cost_of_parts > kMaxPartsShare * static_cast<double>(frame_.Area())) return {{all, all}};
  return parts;
}

}  // namespace upscaled
