#include "engine/pipeline/alpha_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "tests/engine/pipeline/fakes.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::SampleAt;

// Keys' cubic with a = -1/2, from its definition.
double Cubic(double x) {
  x = std::abs(x);
  if (x < 1) return 1.5 * x * x * x - 2.5 * x * x + 1;
  if (x < 2) return -0.5 * x * x * x + 2.5 * x * x - 4 * x + 2;
  return 0;
}

// Alpha of the enlarged image at (x, y), over 0..1.
double Expected(const ImageView& src, double max, int factor, int x, int y) {
  const double sx = (x + 0.5) / factor - 0.5, sy = (y + 0.5) / factor - 0.5;
  double sum = 0;
  for (int v = static_cast<int>(std::floor(sy)) - 1; v <= std::floor(sy) + 2; ++v) {
    for (int u = static_cast<int>(std::floor(sx)) - 1; u <= std::floor(sx) + 2; ++u) {
      const int cu = std::clamp(u, 0, src.width_px() - 1);
      const int cv = std::clamp(v, 0, src.height_px() - 1);
      sum += Cubic(sx - u) * Cubic(sy - v) * SampleAt(src, cu, cv, 3) / max;
    }
  }
  return std::clamp(sum, 0.0, 1.0);
}

double MaxOf(SampleType type) { return type == SampleType::kU8 ? 255 : 65535; }

TEST(EnlargeAlpha, IsTheCatmullRomCubic) {
  std::mt19937 random = test::FreshRandom();
  for (int round = 0; round < 60; ++round) {
    const SampleType from = round % 2 ? SampleType::kU8 : SampleType::kU16;
    const SampleType to = round % 3 ? SampleType::kU8 : SampleType::kU16;
    const int factor = test::RandomInt(random, 1, 5);
    const ImageSpec spec{test::RandomInt(random, 1, 20), test::RandomInt(random, 1, 20), 4, from};
    const Image image = test::RandomImage(spec, random);
    const ImageSpec enlarged{spec.width_px * factor, spec.height_px * factor, 4, to};
    Image result(enlarged);
    std::memset(result.mutable_view().data, 0x5a, result.bytes());
    EnlargeAlpha(image.view(), 0, spec.height_px, factor, result.mutable_view(), 0);
    const double poison = to == SampleType::kU8 ? 0x5a : 0x5a5a;
    for (int y = 0; y < enlarged.height_px; ++y) {
      for (int x = 0; x < enlarged.width_px; ++x) {
        const double expected = Expected(image.view(), MaxOf(from), factor, x, y) * MaxOf(to);
        // Half a level of rounding and what floats leave of 16 bits.
        ASSERT_NEAR(SampleAt(result.view(), x, y, 3), expected, 0.55) << spec << " x" << factor;
        for (int c = 0; c < 3; ++c) ASSERT_EQ(SampleAt(result.view(), x, y, c), poison);
      }
    }
  }
}

TEST(EnlargeAlpha, NeedsTheHaloAlone) {
  std::mt19937 random = test::FreshRandom();
  for (int round = 0; round < 60; ++round) {
    const int factor = test::RandomInt(random, 1, 4);
    const ImageSpec spec{9, test::RandomInt(random, 1, 30), 4, SampleType::kU8};
    const Image image = test::RandomImage(spec, random);
    Image whole({spec.width_px * factor, spec.height_px * factor, 4, SampleType::kU8});
    std::memset(whole.mutable_view().data, 0, whole.bytes());
    EnlargeAlpha(image.view(), 0, spec.height_px, factor, whole.mutable_view(), 0);

    const int top = test::RandomInt(random, 0, spec.height_px - 1);
    const int bottom = test::RandomInt(random, top + 1, spec.height_px);
    const int src_top = std::max(0, top - kAlphaHaloPx);
    const int src_bottom = std::min(spec.height_px, bottom + kAlphaHaloPx);
    // A copy, so that a sanitizer sees reads beyond it.
    Image window({spec.width_px, src_bottom - src_top, 4, SampleType::kU8});
    std::memcpy(window.mutable_view().data, image.view().row(src_top), window.bytes());
    Image band({spec.width_px * factor, (bottom - top) * factor, 4, SampleType::kU8});
    std::memset(band.mutable_view().data, 0, band.bytes());
    EnlargeAlpha(window.view(), src_top, spec.height_px, factor, band.mutable_view(), top * factor);
    ASSERT_TRUE(test::SameImages(
        band.view(),
        whole.view().Crop({0, top * factor, band.spec().width_px, band.spec().height_px})));
  }
}

TEST(EnlargeAlpha, KeepsOpaqueOpaqueAndTransparentTransparent) {
  for (const SampleType type : {SampleType::kU8, SampleType::kU16}) {
    for (const int byte : {0, 255}) {
      for (const int factor : {1, 2, 3, 4}) {
        Image image({7, 5, 4, type});
        std::memset(image.mutable_view().data, byte, image.bytes());
        Image result({7 * factor, 5 * factor, 4, type});
        EnlargeAlpha(image.view(), 0, 5, factor, result.mutable_view(), 0);
        for (int y = 0; y < 5 * factor; ++y) {
          for (int x = 0; x < 7 * factor; ++x) {
            ASSERT_EQ(SampleAt(result.view(), x, y, 3), byte == 0 ? 0 : MaxOf(type));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace upscaled
