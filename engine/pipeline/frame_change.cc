#include "engine/pipeline/frame_change.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/int_math.h"
#include "engine/pipeline/cell_cover.h"

namespace upscaled {
namespace {

// Small enough to tell neighbouring changes apart.
constexpr int kCellPx = 8;
// A part's plan and the small tiles of its sides cost as much as these pixels.
constexpr double kPartCostPx = 4096;
// Parts must cost no more than this of the frame.
constexpr double kMaxPartsShare = 0.9;

// The cost, in source pixels, of a rectangle of changed pixels: the results that depend on them are
// computed, and as many pixels around them.
RectCost CostOfChanges(const Locality& locality) {
  const double margin = 2 * locality.mean_margin_px();
  return {.per_px = 1, .per_side_px = margin, .fixed = margin * margin + kPartCostPx};
}

// Whether two frames have the same pixels under a rectangle.
bool AreEqual(ImageView before, ImageView frame, const Rect& rect) {
  const size_t pixel_bytes = frame.spec.pixel_bytes();
  const size_t at = static_cast<size_t>(rect.x) * pixel_bytes;
  const size_t bytes = static_cast<size_t>(rect.width) * pixel_bytes;
  for (int y = rect.y; y < rect.bottom(); ++y)
    if (std::memcmp(before.row(y) + at, frame.row(y) + at, bytes) != 0) return false;
  return true;
}

// The smallest rectangle around all changed pixels of `r`, at least one.
Rect Trim(ImageView before, ImageView frame, Rect r) {
  while (AreEqual(before, frame, {r.x, r.y, r.width, 1})) ++r.y, --r.height;
  while (AreEqual(before, frame, {r.x, r.bottom() - 1, r.width, 1})) --r.height;
  while (AreEqual(before, frame, {r.x, r.y, 1, r.height})) ++r.x, --r.width;
  while (AreEqual(before, frame, {r.right() - 1, r.y, 1, r.height})) --r.width;
  return r;
}

}  // namespace

FrameChange::FrameChange(Size frame, Locality locality)
    : frame_(frame), locality_(std::move(locality)) {}

size_t FrameChange::Bytes(Size frame) {
  const auto columns = static_cast<size_t>(CeilDiv(frame.width, kCellPx)) + 1;
  const auto rows = static_cast<size_t>(CeilDiv(frame.height, kCellPx)) + 1;
  // Marks, and the needs of CoverNeededCells; where cells begin; vectors double.
  return kCellCoverBytes + columns * rows * 12 + 4 * (columns + rows) * sizeof(int);
}

TileCells FrameChange::ChangedCells(ImageView before, ImageView frame) const {
  TileCells cells{CutAtCells(0, frame_.width, kCellPx), CutAtCells(0, frame_.height, kCellPx), {}};
  for (int y = 0; y < cells.rows(); ++y) {
    const int top = cells.rows_px[y], height = cells.rows_px[y + 1] - top;
    const bool has_changes = !AreEqual(before, frame, {0, top, frame_.width, height});
    for (int x = 0; x < cells.columns(); ++x) {
      const int left = cells.columns_px[x], width = cells.columns_px[x + 1] - left;
      cells.needed.push_back(has_changes && !AreEqual(before, frame, {left, top, width, height}));
    }
  }
  return cells;
}

Rect FrameChange::DependentsOf(const Rect& changed) const {
  const Extent x = locality_.DependentsOf({changed.x, changed.right()});
  const Extent y = locality_.DependentsOf({changed.y, changed.bottom()});
  return Intersect({x.begin, y.begin, x.end - x.begin, y.end - y.begin},
                   {0, 0, frame_.width, frame_.height});
}

Rect FrameChange::CutOutFor(const Rect& area) const {
  // Both corners lie in the blocks as the frame's do, since images may be turned (TTA).
  const auto cut = [&](const Extent& pixels, int length) {
    const int period = locality_.period_px();
    const Extent input = locality_.InputOf(pixels);
    return Extent{std::max(FloorDiv(input.begin, period) * period, 0),
                  length - std::max(FloorDiv(length - input.end, period) * period, 0)};
  };
  const Extent x = cut({area.x, area.right()}, frame_.width);
  const Extent y = cut({area.y, area.bottom()}, frame_.height);
  return {x.begin, y.begin, x.end - x.begin, y.end - y.begin};
}

std::vector<ChangedPart> FrameChange::PartsOf(ImageView before, ImageView frame) const {
  const Rect all{0, 0, frame_.width, frame_.height};
  if (AreEqual(before, frame, all)) return {};
  if (!locality_.local()) return {{all, all}};

  const RectCost cost = CostOfChanges(locality_);
  std::vector<ChangedPart> parts;
  double cost_of_parts = 0;
  for (const Rect& cells : CoverNeededCells(ChangedCells(before, frame), cost)) {
    const Rect area = DependentsOf(Trim(before, frame, cells));
    parts.push_back({area, CutOutFor(area)});
    cost_of_parts += static_cast<double>(parts.back().cut_out.Area()) + kPartCostPx;
  }
  if (cost_of_parts > kMaxPartsShare * static_cast<double>(frame_.Area())) return {{all, all}};
  return parts;
}

}  // namespace upscaled
