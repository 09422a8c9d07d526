// Changing what an image's samples are, not their number: depth, gray and colour, alpha.
//
// Depth: exact rounding, halves up; 8 to 16 bits repeats the byte, so that 16 to 8 bits gives it
// back. Gray of colour is Rec. 601 luma. New alpha is opaque. Dropped alpha puts the image before
// white, as a page shows it.
#pragma once

#include <memory>

#include "engine/image/image.h"
#include "engine/image/row_source.h"
#include "engine/image/row_stage.h"

namespace upscaled {

// Writes `src` as `dst`'s channels and type; both have the same size.
void ConvertPixels(ImageView src, MutableImageView dst);

// The rows of `source` (which must outlive the result) as `spec`, which must be of its size.
std::unique_ptr<RowSource> ConvertRows(RowSource& source, const ImageSpec& spec);

// ConvertRows as a stage: it holds some rows of the source, whatever its height, and none where
// there is nothing to convert.
RowStage PlanConversion(const ImageSpec& source, const ImageSpec& result);

}  // namespace upscaled
