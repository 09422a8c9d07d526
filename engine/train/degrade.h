// Degrades a patch of a small image before the network sees it.
#pragma once

#include <cstdint>
#include <random>

#include "engine/image/image.h"
#include "engine/train/recipe.h"

namespace upscaled::train {

// Drawn for one patch; 0 is not at all.
struct Spoiling {
  double blur_sigma_px = 0;
  double noise_sigma = 0;
  uint64_t noise_seed = 0;
  bool subsamples_chroma = false;
  int jpeg_quality = 0;
  int shift_x = 0, shift_y = 0;  // of the patch in JPEG's blocks, 0..15
};

Spoiling DrawSpoiling(const Recipe& recipe, std::mt19937_64& random);

// Pixels at the image's edges with results dependent on pixels behind them.
inline constexpr int kSpoiledMarginPx = 16;

// `image`: RGB of 8 bits. The same bits every time.
void Spoil(const Spoiling& spoiling, Image& image);

}  // namespace upscaled::train
