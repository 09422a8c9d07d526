// The list of the pipeline's stages, in the order of an image's way through them.
//
//   source -> (wrap) -> prefilter -> RGB -> alpha bleed -> pass, pass, ... -> final resize ->
//   (margins cut off) -> result's channels and type
//
// A stage behind another one's arithmetic gets 16 bits from it, also if source and result have 8:
// rounding to 8 bits between two passes, or before the resize or the way back to gray, would cost
// up to half a level each time, and the rows are few. Only the last stage rounds to the result.
#pragma once

#include <vector>

#include "engine/pipeline/stage.h"
#include "engine/pipeline/upscaler.h"

namespace upscaled {

// Pixels without alpha get the colours of visible ones up to this far, more than a local network
// sees. Networks of the whole image need no more either.
inline constexpr int kMaxBleedPx = 32;

// From source, result, options and passes of a plan. Each stage takes the rows of the one before
// it. The first takes the source's, the last gives the result's.
std::vector<Stage> PlanStages(const UpscalePlan& plan);

}  // namespace upscaled
