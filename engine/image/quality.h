// How close an image is to another one, plane by plane.
#pragma once

#include <array>

#include "engine/base/geometry.h"

namespace upscaled {

// Two planes of one size, of values in 0..255, in rows without gaps.
struct PlanePair {
  const float* a;
  const float* b;
  Size size;
};

// Z. Wang, A. C. Bovik, H. R. Sheikh, E. P. Simoncelli, "Image Quality Assessment: From Error
// Visibility to Structural Similarity" (IEEE TIP 2004): the window's side, and its weights along
// one side, a Gaussian of 1.5 pixels with a sum of 1.
inline constexpr int kSsimWindow = 11;
std::array<double, kSsimWindow> SsimWindow();

// Per row [begin, end), added up in the rows' order: any split among threads gives the same sum. Of
// the squared differences of the pixels, and of the SSIM (K1 0.01, K2 0.03) of the windows from the
// row on that lie inside the planes. There are (width - kSsimWindow + 1) x (height - kSsimWindow +
// 1) windows.
void SquaredErrorOfRows(const PlanePair& planes, int begin, int end, double* sums);
void SsimOfRows(const PlanePair& planes, int begin, int end, double* sums);

// In dB; 100 at most, for equal images.
double Psnr_dB(const PlanePair& planes);
// The mean over all windows; 1: equal. The planes are no smaller than one.
double Ssim(const PlanePair& planes);

}  // namespace upscaled
