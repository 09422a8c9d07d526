// The parts of a frame's result that differ from the frame before: pure arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/base/geometry.h"
#include "engine/image/image.h"
#include "engine/pipeline/cell_cover.h"
#include "engine/pipeline/locality.h"

namespace upscaled {

// A part of a frame with another result, and the cut-out of the frame to compute for it: its width
// and its place in the grids make the part's bytes those of the whole frame. Parts may overlap.
struct ChangedPart {
  Rect area;
  Rect cut_out;
};

class FrameChange {
 public:
  FrameChange(Size frame, Locality locality);

  // The parts of `frame` to compute. The rest is the result of `before`. One part of all the frame,
  // if it is not local or parts would cost as much. Nothing for equal frames.
  std::vector<ChangedPart> PartsOf(ImageView before, ImageView frame) const;

  // Memory of it and of PartsOf.
  static size_t Bytes(Size frame);

 private:
  // Needed are cells with a changed pixel.
  TileCells ChangedCells(ImageView before, ImageView frame) const;
  // The pixels of the frame with results that depend on changed ones.
  Rect DependentsOf(const Rect& changed) const;
  Rect CutOutFor(const Rect& area) const;

  const Size frame_;
  const Locality locality_;
};

}  // namespace upscaled
