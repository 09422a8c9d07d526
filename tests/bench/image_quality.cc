#include "tests/bench/image_quality.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "engine/image/quality.h"

namespace upscaled::bench {
namespace {

std::vector<float> Luma(ImageView image) {
  std::vector<float> luma;
  luma.reserve(static_cast<size_t>(image.spec.size().Area()));
  for (int y = 0; y < image.height_px(); ++y) {
    const uint8_t* p = image.row(y);
    for (int x = 0; x < image.width_px(); ++x, p += 3) {
      luma.push_back(
          static_cast<float>(16 + (65.481 * p[0] + 128.553 * p[1] + 24.966 * p[2]) / 255));
    }
  }
  return luma;
}

std::array<double, 3> ChannelMeans(ImageView image) {
  std::array<int64_t, 3> sums{};
  for (int y = 0; y < image.spec.height_px; ++y) {
    const uint8_t* p = image.row(y);
    for (int x = 0; x < image.width_px(); ++x, p += 3) {
      for (int c = 0; c < 3; ++c) sums[c] += p[c];
    }
  }
  const auto pixels = static_cast<double>(image.spec.size().Area());
  return {sums[0] / pixels, sums[1] / pixels, sums[2] / pixels};
}

}  // namespace

ImageQuality MeasureQuality(ImageView image, ImageView original, int crop_px) {
  const Size size = original.spec.size();
  const Rect inside = Expand({0, 0, size.width, size.height}, -crop_px);
  const std::vector<float> a = Luma(image.Crop(inside)), b = Luma(original.Crop(inside));
  const PlanePair planes{a.data(), b.data(), {inside.width, inside.height}};
  ImageQuality quality{.psnr_db = Psnr_dB(planes), .ssim = Ssim(planes)};
  const std::array<double, 3> means = ChannelMeans(image), wanted = ChannelMeans(original);
  for (int c = 0; c < 3; ++c) {
    quality.mean_shift = std::max(quality.mean_shift, std::abs(means[c] - wanted[c]));
  }
  return quality;
}

}  // namespace upscaled::bench
