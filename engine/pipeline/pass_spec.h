// How one network runs over an image.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "engine/backends/backend.h"
#include "engine/image/image.h"
#include "engine/pipeline/cells.h"
#include "engine/pipeline/reach.h"

namespace upscaled {

// Nothing but `result_type`, `tta`, `corrects`, `keeps_colours`, `computes_alpha` and `cells`
// touches the result.
struct PassSpec {
  std::shared_ptr<const Executable> executable;
  ImageSpec source;  // RGB or RGBA, kU8 or kU16
  SampleType result_type = SampleType::kU8;
  bool tta = false;
  bool corrects = true;         // Corrections; otherwise the result is the network's own
  bool keeps_colours = false;   // KeptColours, one of them
  bool computes_alpha = false;  // AlphaPass, of RGBA; otherwise alpha is resized beside the network
  Reach reach;                  // the executable's; repeat_px a multiple of source_repeat_px, or 0
  // Flat areas of the source repeat one block of this size.
  int source_repeat_px = 1;
  bool spares_flat_areas = false;
  // Set: the pass is one stream of rows, each tile a band of it.
  std::optional<RowStreamNeed> rows;
  // Set: the image is computed in these cells, each as one tile.
  std::optional<CellLattice> cells;
  int cells_in_flight = 1;
  Size tile;      // in source pixels
  int bands = 2;  // rows of tiles held at a time; at least 2 where there are more rows than one
  // Tiles of each image with an ActivationCache, if the network has global poolings. With `tta` 1
  // or none: each variant is an image of its own in one tile, with one cache for all of them in
  // turn.
  int64_t cached_tiles = 0;

  // How many images of this size the network runs over.
  int images() const { return computes_alpha ? 2 : 1; }
};

}  // namespace upscaled
