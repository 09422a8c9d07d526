// How one network runs over an image.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/backends/backend.h"
#include "engine/image/image.h"
#include "engine/pipeline/reach.h"

namespace upscaled {

// Nothing but `result_type` and `tta` touches the result.
struct PassSpec {
  std::shared_ptr<const Executable> executable;
  ImageSpec source;  // RGB or RGBA, kU8 or kU16
  SampleType result_type = SampleType::kU8;
  bool tta = false;
  Reach reach;  // the executable's; repeat_px a multiple of source_repeat_px, or 0
  // Flat areas of the source repeat one block of this size.
  int source_repeat_px = 1;
  bool spares_flat_areas = false;
  Size tile;      // in source pixels
  int bands = 2;  // rows of tiles held at a time; at least 2 where there are more rows than one
  int64_t cached_tiles = 0;  // with an ActivationCache, where the network has global poolings
};

}  // namespace upscaled
