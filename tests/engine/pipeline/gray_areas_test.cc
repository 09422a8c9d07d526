#include "engine/pipeline/gray_areas.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "engine/image/convert.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::RandomInt;

// Gray, but for the pixels where `coloured` says so.
template <typename IsColoured>
Image MakeSource(const ImageSpec& spec, std::mt19937& random, IsColoured coloured) {
  Image image = test::RandomImage(spec, random);
  const size_t bytes = SampleBytes(spec.type);
  for (int y = 0; y < spec.height_px; ++y) {
    for (int x = 0; x < spec.width_px; ++x) {
      uint8_t* pixel = image.mutable_view().row(y) + static_cast<size_t>(x) * spec.pixel_bytes();
      for (size_t i = bytes; i < 3 * bytes; ++i) pixel[i] = pixel[i - bytes];
      if (coloured(x, y)) pixel[3 * bytes - 1] = static_cast<uint8_t>(~pixel[0]);
    }
  }
  return image;
}

Image Corrected(const Image& result, const Image& source, SampleType type, std::mt19937& random) {
  test::ViewRows result_rows(result.view()), source_rows(source.view());
  GrayAreas gray(result_rows, source_rows, type);
  return *test::ReadAllInPortions(gray, random);
}

Image Converted(const Image& image, int channels, SampleType type) {
  Image converted({image.spec().width_px, image.spec().height_px, channels, type});
  ConvertPixels(image.view(), converted.mutable_view());
  return converted;
}

struct Specs {
  ImageSpec source, result;
};

Specs RandomSizes(std::mt19937& random) {
  const int scale = RandomInt(random, 1, 5);
  const ImageSpec source{RandomInt(random, 1, 40), RandomInt(random, 1, 40),
                         RandomInt(random, 3, 4),
                         RandomInt(random, 0, 1) ? SampleType::kU8 : SampleType::kU16};
  return {source,
          {scale * source.width_px, scale * source.height_px, source.channels,
           RandomInt(random, 0, 1) ? SampleType::kU8 : SampleType::kU16}};
}

TEST(GrayAreas, MakesAllOfAGraySourcesResultGray) {
  std::mt19937 random = test::FreshRandom();
  for (int round = 0; round < 30; ++round) {
    const auto [source, result] = RandomSizes(random);
    const Image gray = MakeSource(source, random, [](int, int) { return false; });
    const Image tinted = test::RandomImage(result, random);
    const SampleType type = round % 2 ? SampleType::kU8 : SampleType::kU16;
    // As a gray image gets it.
    const int channels = result.channels == 3 ? 1 : 2;
    const Image expected =
        Converted(Converted(tinted, channels, result.type), result.channels, type);
    EXPECT_TRUE(test::SameImages(Corrected(tinted, gray, type, random).view(), expected.view()));
  }
}

TEST(GrayAreas, LeavesColouredSourcesAlone) {
  std::mt19937 random = test::FreshRandom();
  for (int round = 0; round < 30; ++round) {
    const auto [source, result] = RandomSizes(random);
    // Sepia: no pixel has as much blue as red.
    const Image sepia = MakeSource(source, random, [](int, int) { return true; });
    const Image image = test::RandomImage(result, random);
    EXPECT_TRUE(
        test::SameImages(Corrected(image, sepia, result.type, random).view(), image.view()));
  }
}

// The share of its colour that each pixel keeps, by its distance from the only coloured pixel.
TEST(GrayAreas, FadesColourOutAroundColouredPixels) {
  std::mt19937 random = test::FreshRandom();
  for (int round = 0; round < 30; ++round) {
    auto [source, result] = RandomSizes(random);
    result.type = SampleType::kU16;
    const int scale = result.width_px / source.width_px;
    const int cx = RandomInt(random, 0, source.width_px - 1);
    const int cy = RandomInt(random, 0, source.height_px - 1);
    const Image image =
        MakeSource(source, random, [&](int x, int y) { return x == cx && y == cy; });
    Image red(result);
    for (int y = 0; y < result.height_px; ++y) {
      for (int x = 0; x < result.width_px; ++x) {
        uint16_t* pixel = red.mutable_view().row_as<uint16_t>(y) + x * result.channels;
        std::fill_n(pixel, result.channels, 1000);
        pixel[0] = 61000;
      }
    }
    const Image corrected = Corrected(red, image, SampleType::kU16, random);
    for (int y = 0; y < result.height_px; ++y) {
      for (int x = 0; x < result.width_px; ++x) {
        const uint16_t* pixel = corrected.view().row_as<uint16_t>(y) + x * result.channels;
        const int chroma = pixel[0] - pixel[1];
        // In parts of two source pixels' sides, from the middle of one to that of the other.
        const auto distance = [scale](int at, int source_at) {
          return std::abs(2 * at + 1 - scale * (2 * source_at + 1)) / (2.0 * scale);
        };
        const double away = std::max(distance(x, cx), distance(y, cy));
        if (away <= kFullWeightUpToPx) {
          EXPECT_EQ(chroma, 60000) << away;
        } else if (away >= kZeroWeightFromPx) {
          EXPECT_EQ(chroma, 0) << away;
        } else {
          const double share = (kZeroWeightFromPx - away) / (kZeroWeightFromPx - kFullWeightUpToPx);
          EXPECT_NEAR(chroma, 60000 * share, 60000 * 0.13) << away;
        }
      }
    }
  }
}

}  // namespace
}  // namespace upscaled
