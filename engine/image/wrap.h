// A texture to be laid side by side: beyond each border it goes on at the opposite one.
#pragma once

#include "engine/image/image.h"
#include "engine/image/row_stage.h"

namespace upscaled {

// Gives the image with `margin_px` (0 or more, also more than a side has) of the pixels beyond each
// border. Holds all of the image, since its first rows are the last ones.
RowStage PlanWrap(const ImageSpec& source, int margin_px);

}  // namespace upscaled
