// The bleed against a direct dilation of the whole image.
#include "engine/image/alpha.h"

#include <gtest/gtest.h>

#include "tests/support/test_image.h"

namespace upscaled {
namespace {

// Random colours; a pixel is visible with a chance of one in `one_in`, in blocks of `block` pixels.
Image Blotches(const ImageSpec& spec, int one_in, int block, std::mt19937& random) {
  Image image = test::RandomImage(spec, random);
  for (int by = 0; by < spec.height_px; by += block)
    for (int bx = 0; bx < spec.width_px; bx += block) {
      if (test::RandomInt(random, 1, one_in) == 1) continue;
      for (int y = by; y < std::min(by + block, spec.height_px); ++y)
        for (int x = bx; x < std::min(bx + block, spec.width_px); ++x) {
          const size_t bytes = SampleBytes(spec.type);
          std::memset(image.mutable_view().row(y) + (x + 1) * spec.pixel_bytes() - bytes, 0, bytes);
        }
    }
  return image;
}

template <typename T>
Image Dilate(const Image& src, int radius_px) {
  const ImageSpec spec = src.spec();
  const int channels = spec.channels, width = spec.width_px, height = spec.height_px;
  const auto at = [&](std::vector<T>& pixels, int x, int y) {
    return &pixels[(static_cast<size_t>(y) * width + x) * channels];
  };
  const T* begin = src.view().template row_as<T>(0);
  std::vector<T> pixels(begin, begin + src.bytes() / sizeof(T));
  std::vector<bool> known(width * height);
  for (int i = 0; i < width * height; ++i) known[i] = pixels[(i + 1) * channels - 1] > 0;
  for (int pass = 0; pass < radius_px; ++pass) {
    std::vector<T> next = pixels;
    std::vector<bool> next_known = known;
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < width; ++x) {
        if (known[y * width + x]) continue;
        std::vector<double> sum(channels);
        int count = 0;
        for (int ny = std::max(0, y - 1); ny <= std::min(height - 1, y + 1); ++ny)
          for (int nx = std::max(0, x - 1); nx <= std::min(width - 1, x + 1); ++nx) {
            if (!known[ny * width + nx]) continue;
            ++count;
            for (int c = 0; c < channels; ++c) sum[c] += at(pixels, nx, ny)[c];
          }
        if (count == 0) continue;
        next_known[y * width + x] = true;
        for (int c = 0; c < channels - 1; ++c) {
          const double mean = sum[c] / count;
          at(next, x, y)[c] =
              static_cast<T>(std::is_same_v<T, float> ? mean : std::floor(mean + 0.5));
        }
      }
    pixels = next;
    known = next_known;
  }
  Image result(spec);
  std::memcpy(result.mutable_view().data, pixels.data(), result.bytes());
  return result;
}

template <typename T>
void ExpectDilated(SampleType type, std::mt19937& random) {
  for (int channels : {2, 4})
    for (Size size : {Size{1, 1}, Size{1, 30}, Size{30, 1}, Size{2, 2}, Size{41, 37}})
      for (int radius_px : {0, 1, 2, 9})
        for (int one_in : {2, 30}) {
          SCOPED_TRACE(::testing::Message() << size.width << " x " << size.height << ", radius "
                                            << radius_px << ", one in " << one_in);
          const Image src = Blotches({size.width, size.height, channels, type}, one_in, 3, random);
          test::ViewRows rows(src.view());
          const auto bled = test::ReadAllInPortions(*MakeAlphaBleed(rows, radius_px), random);
          ASSERT_TRUE(bled.ok()) << bled.status();
          const Image expected = Dilate<T>(src, radius_px);
          if constexpr (std::is_same_v<T, float>) {
            for (size_t i = 0; i < bled->bytes() / sizeof(float); ++i)
              ASSERT_NEAR(bled->view().row_as<float>(0)[i], expected.view().row_as<float>(0)[i],
                          1e-5);
          } else {
            EXPECT_TRUE(test::SameImages(bled->view(), expected.view()));
          }
        }
}

TEST(AlphaBleedTest, AgreesWithDilationOfTheWholeImage) {
  std::mt19937 random = test::FreshRandom();
  ExpectDilated<uint8_t>(SampleType::kU8, random);
  ExpectDilated<uint16_t>(SampleType::kU16, random);
  ExpectDilated<float>(SampleType::kF32, random);
}

TEST(AlphaBleedTest, VisiblePixelsAndAlphaStay) {
  std::mt19937 random = test::FreshRandom();
  const Image src = Blotches({60, 50, 4, SampleType::kU8}, 4, 5, random);
  test::ViewRows rows(src.view());
  const auto bled = test::ReadAll(*MakeAlphaBleed(rows, 4));
  ASSERT_TRUE(bled.ok());
  int changed = 0;
  for (int y = 0; y < 50; ++y)
    for (int x = 0; x < 60; ++x) {
      const uint8_t* before = src.view().row(y) + 4 * x;
      const uint8_t* after = bled->view().row(y) + 4 * x;
      EXPECT_EQ(before[3], after[3]);
      if (before[3] > 0) {
        EXPECT_EQ(std::memcmp(before, after, 4), 0);
      } else {
        changed += std::memcmp(before, after, 4) != 0;
      }
    }
  EXPECT_GT(changed, 100);
}

}  // namespace
}  // namespace upscaled
