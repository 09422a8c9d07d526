// A step on an image's way from rows to rows, planned from the image's header: the step's input,
// output and memory are known before there is a row, and its rows are made when there are rows to
// take.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "engine/image/image.h"
#include "engine/image/row_source.h"

namespace upscaled {

struct StageSpec {
  ImageSpec source;         // the rows that it takes
  ImageSpec result;         // the rows that it gives; their size over the source's is its scale
  int border_px = 0;        // how far around its place a result's pixel depends on source pixels
  size_t memory_bytes = 0;  // bound on what its rows allocate
};

// A stage with its source as its only need.
struct RowStage : StageSpec {
  // The result's rows. `rows` (its spec is `source`) must outlive them.
  std::function<std::unique_ptr<RowSource>(RowSource& rows)> make;
};

}  // namespace upscaled
