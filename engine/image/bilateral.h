// Smoothing with sharp edges.
#pragma once

#include <cmath>
#include <memory>

#include "engine/image/image.h"
#include "engine/image/row_source.h"
#include "engine/image/row_stage.h"

namespace upscaled {

// The bilateral filter of C. Tomasi and R. Manduchi, "Bilateral Filtering for Gray and Color
// Images" (ICCV 1998), section 2.1, with Gaussians for closeness and similarity (2.2): a pixel
// becomes the mean of those in a window around it, weighted by
//
//   exp(-|distance in the plane|^2 / (2 sigma_space^2) - |colour distance|^2 / (2 sigma_range^2)).
//
// The colour distance is Euclidean over the channels: no colour appears at an edge without it on
// one side. Channels are taken as they are stored, not in CIE-Lab.
struct BilateralOptions {
  static constexpr double kMinSigma = 0.1;
  static constexpr double kMaxSigmaSpace = 8;
  static constexpr double kMaxSigmaRange = 255;

  double sigma_space = 0;  // in pixels
  double sigma_range = 0;  // in levels of 0..255, whatever the samples' type

  bool valid() const {
    return sigma_space >= kMinSigma && sigma_space <= kMaxSigmaSpace && sigma_range >= kMinSigma &&
           sigma_range <= kMaxSigmaRange;
  }
  // The window has 2 * radius + 1 pixels a side: beyond it weights are below e^-2 of the centre's.
  int radius_px() const { return static_cast<int>(std::ceil(2 * sigma_space)); }
};

// The filtered rows of `source` (integer samples; it must outlive the result), with 16 bits a
// sample: the stages behind see the mean's gain. Pixels outside the image have no weight. Nor have
// fully transparent ones. They stay as they are, as alpha does.
//
// The rows do not depend on how many are read at a time. `options` must be valid.
std::unique_ptr<RowSource> MakeBilateral(RowSource& source, const BilateralOptions& options);

// MakeBilateral as a stage: it holds the rows of the window.
RowStage PlanBilateral(const ImageSpec& source, const BilateralOptions& options);

}  // namespace upscaled
