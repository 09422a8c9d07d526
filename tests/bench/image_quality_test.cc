#include "tests/bench/image_quality.h"

#include <cmath>
#include <random>

#include "gtest/gtest.h"

namespace upscaled::bench {
namespace {

Image Noise(Size size, uint32_t seed) {
  Image image({size.width, size.height, 3, SampleType::kU8});
  std::mt19937 random(seed);
  for (int y = 0; y < size.height; ++y) {
    uint8_t* row = image.mutable_view().row(y);
    for (int i = 0; i < size.width * 3; ++i) row[i] = static_cast<uint8_t>(random() % 200);
  }
  return image;
}

Image Flat(Size size, uint8_t value) {
  Image image({size.width, size.height, 3, SampleType::kU8});
  for (int y = 0; y < size.height; ++y) {
    std::fill_n(image.mutable_view().row(y), size.width * 3, value);
  }
  return image;
}

TEST(ImageQualityTest, AnImageEqualsItself) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  const Image image = Noise({31, 27}, seed);
  const ImageQuality quality = MeasureQuality(image.view(), image.view(), 8);
  EXPECT_EQ(quality.psnr_db, 100);
  EXPECT_NEAR(quality.ssim, 1, 1e-12);
  EXPECT_EQ(quality.mean_shift, 0);
}

// Ten levels of every channel are 10 * 219 / 255 of Y: all three measures have closed forms.
TEST(ImageQualityTest, AnOffsetOfFlatImagesIsMeasuredExactly) {
  const Image a = Flat({27, 27}, 110), b = Flat({27, 27}, 100);
  const ImageQuality quality = MeasureQuality(a.view(), b.view(), 8);
  const double offset = 10 * 219.0 / 255;
  EXPECT_NEAR(quality.psnr_db, 20 * std::log10(255 / offset), 1e-5);
  const double ya = 16 + 110 * 219.0 / 255, yb = 16 + 100 * 219.0 / 255, c1 = 2.55 * 2.55;
  EXPECT_NEAR(quality.ssim, (2 * ya * yb + c1) / (ya * ya + yb * yb + c1), 1e-6);
  EXPECT_NEAR(quality.mean_shift, 10, 1e-12);
}

TEST(ImageQualityTest, TheBorderCountsForTheMeanAlone) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  const Image original = Noise({40, 30}, seed);
  Image changed = Noise({40, 30}, seed);
  for (int i = 0; i < 40 * 3; ++i) changed.mutable_view().row(7)[i] += 30;
  const ImageQuality quality = MeasureQuality(changed.view(), original.view(), 8);
  EXPECT_EQ(quality.psnr_db, 100);
  EXPECT_NEAR(quality.mean_shift, 1, 1e-12);
  EXPECT_LT(MeasureQuality(changed.view(), original.view(), 7).psnr_db, 100);
}

TEST(ImageQualityTest, UnrelatedNoiseHasNoStructureInCommon) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  const Image a = Noise({96, 80}, seed), b = Noise({96, 80}, seed + 1);
  EXPECT_NEAR(MeasureQuality(a.view(), b.view(), 8).ssim, 0, 0.1);
}

}  // namespace
}  // namespace upscaled::bench
