// Choices about alpha, and colours for pixels that nobody sees.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/image/image.h"
#include "engine/image/row_source.h"
#include "engine/image/row_stage.h"

namespace upscaled {

// How alpha is enlarged: by the networks, as a gray image, or by Catmull-Rom interpolation.
enum class AlphaMethod : uint8_t { kNetwork, kResample };

// The colours of fully transparent pixels: those of the nearest visible ones, or the source's own.
enum class AlphaColour : uint8_t { kBleed, kKeep };

// The rows of `source` (which has alpha and must outlive the result), where fully transparent
// pixels within `radius_px` (>= 0) of a visible one take the colours around them, so that a network
// that mixes neighbours mixes no hidden colour into a visible edge. Alpha stays. `radius_px` times,
// each pixel without a colour takes the mean of those of its eight neighbours that have one.
//
// The rows do not depend on how many are read at a time.
std::unique_ptr<RowSource> MakeAlphaBleed(RowSource& source, int radius_px);

// MakeAlphaBleed as a stage: it holds three rows for each pixel of the radius.
RowStage PlanAlphaBleed(const ImageSpec& source, int radius_px);

}  // namespace upscaled
