// How close an image is to the original: PSNR, SSIM and the shift of its colours.
#pragma once

#include "engine/image/image.h"

namespace upscaled::bench {

struct ImageQuality {
  // On the Y plane (BT.601, 16..235), for comparisons with the literature's figures.
  double psnr_db = 0;  // 100 at most, which stands for equal
  double ssim = 0;     // 1: equal
  // The largest difference of a channel's mean from the original's, in levels of 0..255.
  double mean_shift = 0;
};

// Both images are RGB kU8 of the same size. PSNR and SSIM leave out `crop_px` on every side (the
// mean shift does not); at least 11 x 11 pixels must remain.
ImageQuality MeasureQuality(ImageView image, ImageView original, int crop_px);

}  // namespace upscaled::bench
