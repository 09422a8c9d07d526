// Changing the kind of an image's samples, not their number: depth, gray and colour, alpha.
//
// Depth: exact rounding, halves up. 8 to 16 bits repeats the byte, and 16 to 8 bits gives it back.
// Gray of colour is Rec. 601 luma. New alpha is opaque. Dropped alpha puts the image before white,
// as a page shows it.
#pragma once

#include <memory>

#include "engine/image/image.h"
#include "engine/image/row_source.h"
#include "engine/image/row_stage.h"

namespace upscaled {

// Writes `src` as `dst`'s channels and type; both have the same size.
void ConvertPixels(ImageView src, MutableImageView dst);

// The rows of `source` (must outlive the result) as `spec`, of the same size.
std::unique_ptr<RowSource> ConvertRows(RowSource& source, const ImageSpec& spec);

// ConvertRows as a stage: it holds some rows of the source, at any height, and none if there is
// nothing to convert.
RowStage PlanConversion(const ImageSpec& source, const ImageSpec& result);

}  // namespace upscaled
