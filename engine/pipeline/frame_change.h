// Where a frame's result differs from that of the frame before: pure arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/base/geometry.h"
#include "engine/image/image.h"
#include "engine/pipeline/cell_cover.h"
#include "engine/pipeline/locality.h"

namespace upscaled {

// A part of a frame whose result is another one, and the cut-out of the frame that is computed for
// it: wide enough, and so placed in the grids, that the part's bytes are those of the whole frame.
// Parts may overlap.
struct ChangedPart {
  Rect area;
  Rect cut_out;
};

class FrameChange {
 public:
  FrameChange(Size frame, Locality locality);

  // The parts of `frame` that are to be computed, all else being the result of `before`. One part
  // of all the frame, if it is not local or parts would cost as much. Nothing for equal frames.
  std::vector<ChangedPart> PartsOf(ImageView before, ImageView frame) const;

  // Memory that it and PartsOf take.
  static size_t Bytes(Size frame);

 private:
  // Needed are cells of which a pixel differs.
  TileCells ChangedCells(ImageView before, ImageView frame) const;
  // The pixels of the frame whose results depend on changed ones.
  Rect DependentsOf(const Rect& changed) const;
  Rect CutOutFor(const Rect& area) const;

  const Size frame_;
  const Locality locality_;
};

}  // namespace upscaled
