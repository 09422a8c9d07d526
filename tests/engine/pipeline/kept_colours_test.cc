#include "engine/pipeline/kept_colours.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "tests/engine/pipeline/fakes.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::RandomInt;
using test::SampleAt;

// One colour of an image of doubles over 0..65535; beyond its sides it goes on as it ends.
struct Plane {
  int width, height;
  std::vector<double> values;

  Plane(int width, int height)
      : width(width), height(height), values(static_cast<size_t>(width * height)) {}
  double& at(int x, int y) { return values[static_cast<size_t>(y * width + x)]; }
  double operator()(int x, int y) const {
    return values[static_cast<size_t>(std::clamp(y, 0, height - 1) * width +
                                      std::clamp(x, 0, width - 1))];
  }
};

// The definition, over the whole image.
Plane Correction(const Image& result, const Image& source, int channel) {
  const Size size = source.spec().size();
  const int scale = result.spec().width_px / size.width;
  const double unit = source.spec().type == SampleType::kU8 ? 257 : 1;
  Plane difference(size.width, size.height), smoothed = difference;
  for (int y = 0; y < size.height; ++y) {
    for (int x = 0; x < size.width; ++x) {
      double sum = 0;
      for (int i = 0; i < scale * scale; ++i) {
        sum += SampleAt(result.view(), x * scale + i % scale, y * scale + i / scale, channel);
      }
      difference.at(x, y) = unit * SampleAt(source.view(), x, y, channel) - sum / (scale * scale);
    }
  }
  for (int y = 0; y < size.height; ++y) {
    for (int x = 0; x < size.width; ++x) {
      double sum = 0, weights = 0;
      for (int dy = -kKeptColoursRadiusPx; dy <= kKeptColoursRadiusPx; ++dy) {
        for (int dx = -kKeptColoursRadiusPx; dx <= kKeptColoursRadiusPx; ++dx) {
          const double weight =
              std::exp(-(dx * dx + dy * dy) / (2 * kKeptColoursSigmaPx * kKeptColoursSigmaPx));
          sum += weight * difference(x + dx, y + dy);
          weights += weight;
        }
      }
      smoothed.at(x, y) = sum / weights;
    }
  }
  return smoothed;
}

double Interpolated(const Plane& plane, double x, double y) {
  const int left = static_cast<int>(std::floor(x)), top = static_cast<int>(std::floor(y));
  const double u = x - left, v = y - top;
  return (1 - v) * ((1 - u) * plane(left, top) + u * plane(left + 1, top)) +
         v * ((1 - u) * plane(left, top + 1) + u * plane(left + 1, top + 1));
}

Image Kept(const Image& result, const Image& source, std::mt19937& random) {
  test::ViewRows result_rows(result.view()), source_rows(source.view());
  KeptColours kept(result_rows, source_rows);
  return *test::ReadAllInPortions(kept, random);
}

TEST(KeptColours, AddsTheLowFrequenciesThatTheResultLacks) {
  std::mt19937 random = test::FreshRandom();
  for (int round = 0; round < 20; ++round) {
    const int scale = RandomInt(random, 1, 4);
    const ImageSpec source_spec{RandomInt(random, 1, 30), RandomInt(random, 1, 30),
                                RandomInt(random, 3, 4),
                                RandomInt(random, 0, 1) ? SampleType::kU8 : SampleType::kU16};
    const ImageSpec spec{scale * source_spec.width_px, scale * source_spec.height_px,
                         source_spec.channels, SampleType::kU16};
    const Image source = test::RandomImage(source_spec, random);
    const Image result = test::RandomImage(spec, random);
    const Image kept = Kept(result, source, random);
    for (int c = 0; c < spec.channels; ++c) {
      const Plane correction = Correction(result, source, c);
      for (int y = 0; y < spec.height_px; ++y) {
        for (int x = 0; x < spec.width_px; ++x) {
          double expected = SampleAt(result.view(), x, y, c);
          if (c < 3) {
            expected += Interpolated(correction, (x + 0.5) / scale - 0.5, (y + 0.5) / scale - 0.5);
          }
          ASSERT_NEAR(SampleAt(kept.view(), x, y, c), std::clamp(expected, 0.0, 65535.0), 0.6)
              << spec << " of " << source_spec << " at " << x << ", " << y << ", " << c;
        }
      }
    }
  }
}

TEST(KeptColours, GivesAFlatImageTheColourOfItsSource) {
  std::mt19937 random = test::FreshRandom();
  Image source({20, 30, 3, SampleType::kU8}), result({40, 60, 3, SampleType::kU16});
  for (int y = 0; y < 30; ++y) std::fill_n(source.mutable_view().row(y), 60, uint8_t{127});
  for (int y = 0; y < 60; ++y) {
    std::fill_n(result.mutable_view().row_as<uint16_t>(y), 120, uint16_t{104 * 257});
  }
  const Image kept = Kept(result, source, random);
  for (int y = 0; y < 60; ++y) {
    for (int i = 0; i < 120; ++i) {
      ASSERT_NEAR(kept.view().row_as<uint16_t>(y)[i], 127 * 257, 1);
    }
  }
}

}  // namespace
}  // namespace upscaled
