// The inner loop of the bilateral filter. Private to engine/image.
#pragma once

#include <cstddef>

#include "engine/image/bilateral_window.h"

namespace upscaled {

// A row is a plane of floats for each colour, 1 or 3. A plane has a pixel's value at radius_px + x,
// and kNoColour on both sides of the image, as far as the window and whole vectors reach.
struct BilateralLayout {
  // Far enough from every colour to make its weight exactly 0, with a finite float as its square.
  static constexpr float kNoColour = 1e15f;

  BilateralLayout(int radius_px, int colours, int width_px);

  int colours;
  int width_px;
  size_t plane_floats;   // per plane of a row
  size_t result_floats;  // per plane of a result: whole vectors
};

// Filters a row. `rows` are those of its window, from top to bottom; null: outside the image.
// `result` has layout.colours planes of layout.result_floats.
void FilterBilateralRow(const BilateralWindow& window, const BilateralLayout& layout,
                        const float* const* rows, float* result);

}  // namespace upscaled
