// Resizing an image to any size as a stream of rows.
//
// Separable convolution with half-pixel centres; the filter widens when it shrinks (antialiasing).
// Taps outside of the image are left out and the others normalised to a sum of one. Computed in
// float; integers are rounded half up and clamped. (zimg gives other bytes, and computes an image
// in one call.) With alpha and AlphaColour::kBleed, colours count as much as they are visible:
// hidden colours do not bleed in, and fully transparent pixels come out black. With kKeep each
// channel is resized by itself.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/base/geometry.h"
#include "engine/image/alpha.h"
#include "engine/image/image.h"
#include "engine/image/row_source.h"
#include "engine/image/row_stage.h"

namespace upscaled {

enum class Filter : uint8_t {
  kLanczos3,
  kCatmullRom,  // Mitchell and Netravali, "Reconstruction Filters in Computer Graphics": B 0, C 1/2
};

// The weight of a source sample at distance `x` from the result sample, before normalising.
double FilterWeight(Filter filter, double x);

// How far the filter reaches from a result sample's centre, in source samples.
double FilterReach(int source_length, int result_length, Filter filter);

// `source` must outlive the result. The rows have its channels and type; `result` is at least 1 x
// 1. The rows do not depend on how many are read at a time.
std::unique_ptr<RowSource> MakeResizer(RowSource& source, Size result, Filter filter,
                                       AlphaColour colour = AlphaColour::kBleed);

// MakeResizer as a stage: it holds some rows of the source and of the result, and the weights of
// each result row and column: some 80 bytes each, more where it shrinks.
RowStage PlanResize(const ImageSpec& source, Size result, Filter filter,
                    AlphaColour colour = AlphaColour::kBleed);

// PlanResize of `part` of the source. The source must contain it. At the part's borders the filter
// goes on in the rest of the source.
RowStage PlanResizeOfPart(const ImageSpec& source, const Rect& part, Size result, Filter filter,
                          AlphaColour colour);

}  // namespace upscaled
