// Choices about alpha, and colours for invisible pixels.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/image/image.h"
#include "engine/image/row_source.h"
#include "engine/image/row_stage.h"

namespace upscaled {

// How alpha is enlarged: by the networks, as a gray image, or by Catmull-Rom interpolation.
enum class AlphaMethod : uint8_t { kNetwork, kResample };

// The colours of fully transparent pixels: the nearest visible ones, or the source's own.
enum class AlphaColour : uint8_t { kBleed, kKeep };

// Returns the rows of `source` with colours bled into transparent pixels, to keep hidden colours
// out of visible edges when a network mixes neighbours. Changes fully transparent pixels within
// `radius_px` (>= 0) of a visible one. Runs `radius_px` rounds: a pixel without a colour takes
// the mean of its coloured neighbours (of eight). Alpha is unchanged. `source` must have alpha,
// and must outlive the result.
//
// The rows do not depend on how many you read at a time.
std::unique_ptr<RowSource> MakeAlphaBleed(RowSource& source, int radius_px);

// MakeAlphaBleed as a stage: it holds three rows for each pixel of the radius.
RowStage PlanAlphaBleed(const ImageSpec& source, int radius_px);

}  // namespace upscaled
