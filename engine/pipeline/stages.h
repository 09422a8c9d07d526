// The stages that an image goes through, as PlanUpscale accounts for them and MakeUpscaler builds
// them.
//
//   source -> prefilter -> RGB -> alpha bleed -> pass, pass, ... -> final resize -> result's
//   channels and type
//
// Whatever follows another stage's arithmetic gets 16 bits from it, also when source and result
// have 8: rounding to 8 bits between two passes, or before the resize or the way back to gray,
// would cost up to half a level each time, and the rows are few. Only the last stage rounds to the
// result.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "engine/image/bilateral.h"
#include "engine/image/image.h"
#include "engine/pipeline/network_pass.h"
#include "engine/pipeline/upscaler.h"

namespace upscaled {

struct Stages {
  ImageSpec source;
  std::optional<BilateralOptions> prefilter;
  ImageSpec filtered;  // after the prefilter
  ImageSpec input;     // as the first pass takes it; without passes `filtered`
  int bleed_px = 0;    // how far colour is bled into transparent pixels; 0: not at all
  std::vector<PassSpec> passes;
  ImageSpec computed;  // after the passes
  ImageSpec resized;   // after the final resize
  ImageSpec result;
};

// From source, result, options, passes and, as far as they are chosen, pass_tile, pass_bands and
// pass_cached_tiles.
Stages DescribeStages(const UpscalePlan& plan);

// What all stages allocate.
size_t StagesBytes(const Stages& stages);

}  // namespace upscaled
