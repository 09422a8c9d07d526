#include "engine/pipeline/choose_noise.h"

#include <algorithm>
#include <iterator>

#include "engine/model/repository.h"

namespace upscaled {
namespace {

// The lowest qualities at which no level and levels 1 and 2 come out best, in dB over photographs
// outside of all training sets, by general-2x: tests/bench/noise_levels.py and RESULTS.md.
struct Thresholds {
  int none, weak, medium;
};
constexpr Thresholds kFullColours = {91, 73, 56};
constexpr Thresholds kSubsampled = {94, 77, 57};

int WantedLevel(const JpegCoding& jpeg) {
  const Thresholds& least = jpeg.subsampled ? kSubsampled : kFullColours;
  if (jpeg.quality >= least.none) return kNoDenoise;
  return jpeg.quality >= least.weak ? 1 : jpeg.quality >= least.medium ? 2 : 3;
}

}  // namespace

int ChooseNoiseLevel(const std::optional<JpegCoding>& jpeg, const std::vector<int>& levels) {
  const int wanted = jpeg.has_value() ? WantedLevel(*jpeg) : kNoDenoise;
  const auto stronger = std::ranges::upper_bound(levels, wanted);
  if (stronger != levels.begin()) return *std::prev(stronger);
  return levels.empty() ? kNoDenoise : levels.front();
}

int ChooseNoiseLevel(const ImageHeader& header, Size source, Size result,
                     const std::vector<int>& levels) {
  const bool enlarges = result.width > source.width || result.height > source.height;
  return enlarges ? ChooseNoiseLevel(header.jpeg, levels) : kNoDenoise;
}

}  // namespace upscaled
