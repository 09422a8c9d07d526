#include "engine/image/jpeg_quality.h"

#include <algorithm>
#include <cmath>

namespace upscaled {
namespace {

constexpr QuantisationTable kLumaBase = {
    16, 11, 12,  14,  12,  10, 16, 14,  13,  14,  18,  17,  16, 19,  24,  40,
    26, 24, 22,  22,  24,  49, 35, 37,  29,  40,  58,  51,  61, 60,  57,  51,
    56, 55, 64,  72,  92,  78, 64, 68,  87,  69,  55,  56,  80, 109, 81,  87,
    95, 98, 103, 104, 103, 62, 77, 113, 121, 112, 100, 120, 92, 101, 103, 99};

// Percent of the base table, as jpeg_quality_scaling gives it.
int ScaleOf(int quality) { return quality < 50 ? 5000 / quality : 200 - 2 * quality; }

// The mean of libjpeg's table. Each quality has another one.
double MeanAt(int quality) {
  double sum = 0;
  for (const int base : kLumaBase) sum += std::clamp((base * ScaleOf(quality) + 50) / 100, 1, 255);
  return sum / std::ssize(kLumaBase);
}

}  // namespace

int EstimateJpegQuality(const QuantisationTable& luma) {
  double mean = 0;
  for (const int step : luma) mean += step;
  mean /= std::ssize(luma);
  // Finer tables have higher qualities.
  int best = 1;
  for (int quality = 2; quality <= 100; ++quality) {
    if (std::abs(MeanAt(quality) - mean) <= std::abs(MeanAt(best) - mean)) best = quality;
  }
  return best;
}

}  // namespace upscaled
