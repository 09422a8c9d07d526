#include "engine/pipeline/flat_alpha.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "tests/engine/pipeline/fakes.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::RandomInt;
using test::SampleAt;

// RGBA, alpha being one value but for a pixel.
Image FlatBut(const ImageSpec& spec, int x, int y, int value, std::mt19937& random) {
  Image image = test::RandomImage(spec, random);
  for (int row = 0; row < spec.height_px; ++row) {
    for (int column = 0; column < spec.width_px; ++column) {
      const int alpha = row == y && column == x ? (value < 128 ? value + 100 : value - 100) : value;
      if (spec.type == SampleType::kU8) {
        image.mutable_view().row(row)[4 * column + 3] = static_cast<uint8_t>(alpha);
      } else {
        image.mutable_view().row_as<uint16_t>(row)[4 * column + 3] = static_cast<uint16_t>(alpha);
      }
    }
  }
  return image;
}

TEST(FlatAlpha, IsComputedAtEdgesAndTheSourcesElsewhere) {
  std::mt19937 random = test::FreshRandom();
  for (int round = 0; round < 30; ++round) {
    const bool bytes = RandomInt(random, 0, 1) == 1;
    const ImageSpec spec{RandomInt(random, 1, 40), RandomInt(random, 1, 40), 4,
                         bytes ? SampleType::kU8 : SampleType::kU16};
    const int scale = RandomInt(random, 1, 4);
    const int cx = RandomInt(random, 0, spec.width_px - 1);
    const int cy = RandomInt(random, 0, spec.height_px - 1);
    const int value = bytes ? RandomInt(random, 0, 255) : RandomInt(random, 0, 65535);
    const Image source = FlatBut(spec, cx, cy, value, random);
    const Image computed = test::RandomImage(
        {scale * spec.width_px, scale * spec.height_px, 3, SampleType::kU16}, random);
    test::ViewRows computed_rows(computed.view()), source_rows(source.view());
    FlatAlpha rows(computed_rows, source_rows);
    const Image alpha = *test::ReadAllInPortions(rows, random);
    // A single pixel has no edge.
    const bool has_edge = spec.width_px > 1 || spec.height_px > 1;
    for (int y = 0; y < alpha.spec().height_px; ++y) {
      for (int x = 0; x < alpha.spec().width_px; ++x) {
        const int away = std::max(std::abs(x / scale - cx), std::abs(y / scale - cy));
        const double actual = SampleAt(alpha.view(), x, y, 0);
        if (has_edge && away == 0) {
          ASSERT_EQ(actual, SampleAt(computed.view(), x, y, 0)) << x << ", " << y;
        } else if (away > kFlatAlphaBorderPx) {
          ASSERT_EQ(actual, value * (bytes ? 257 : 1)) << x << ", " << y;
        }
      }
    }
  }
}

}  // namespace
}  // namespace upscaled
