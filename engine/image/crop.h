// A part of an image as a stream of rows.
#pragma once

#include "engine/base/geometry.h"
#include "engine/image/image.h"
#include "engine/image/row_stage.h"

namespace upscaled {

// Gives the rows of `part` (not empty, inside `source`) and passes over all others; holds one row
// of the source.
RowStage PlanCrop(const ImageSpec& source, const Rect& part);

}  // namespace upscaled
