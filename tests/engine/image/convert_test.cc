#include "engine/image/convert.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tests/support/test_image.h"

namespace upscaled {
namespace {

constexpr SampleType kSampleTypes[] = {SampleType::kU8, SampleType::kU16, SampleType::kF32};

// A row of every value of T.
template <typename T>
Image EveryValue(SampleType type) {
  const int count = std::numeric_limits<T>::max() + 1;
  Image image({count, 1, 1, type});
  for (int i = 0; i < count; ++i) image.mutable_view().row_as<T>(0)[i] = static_cast<T>(i);
  return image;
}

Image Converted(ImageView src, int channels, SampleType type) {
  Image dst({src.width_px(), src.height_px(), channels, type});
  ConvertPixels(src, dst.mutable_view());
  return dst;
}

TEST(ConvertTest, DepthIsExactForEveryValue) {
  const Image bytes = EveryValue<uint8_t>(SampleType::kU8);
  const Image words = EveryValue<uint16_t>(SampleType::kU16);
  const Image narrowed = Converted(words.view(), 1, SampleType::kU8);
  for (int v = 0; v < 65536; ++v) ASSERT_EQ(narrowed.view().row(0)[v], std::lround(v / 257.0)) << v;
  const Image widened = Converted(bytes.view(), 1, SampleType::kU16);
  for (int v = 0; v < 256; ++v) ASSERT_EQ(widened.view().row_as<uint16_t>(0)[v], v * 257);

  for (const Image* image : {&bytes, &words}) {
    const Image floats = Converted(image->view(), 1, SampleType::kF32);
    const int max = image->spec().width_px - 1;
    for (int v = 0; v <= max; ++v)
      ASSERT_EQ(floats.view().row_as<float>(0)[v], static_cast<float>(v) / max);
    EXPECT_TRUE(
        test::SameImages(Converted(floats.view(), 1, image->spec().type).view(), image->view()));
  }
}

TEST(ConvertTest, FloatsAreClampedAndRounded) {
  Image floats({6, 1, 1, SampleType::kF32});
  float* values = floats.mutable_view().row_as<float>(0);
  values[0] = -3, values[1] = 7, values[2] = NAN, values[3] = 0.5f / 255 + 1e-6f;
  values[4] = 0.5f / 255 - 1e-6f, values[5] = INFINITY;
  const Image bytes = Converted(floats.view(), 1, SampleType::kU8);
  EXPECT_EQ(std::vector<int>(bytes.view().row(0), bytes.view().row(0) + 6),
            (std::vector<int>{0, 255, 0, 1, 0, 255}));
}

// One sample, 0..1.
double Sample(ImageView view, int x, int y, int c) {
  const int i = x * view.spec.channels + c;
  switch (view.spec.type) {
    case SampleType::kU8:
      return view.row(y)[i] / 255.0;
    case SampleType::kU16:
      return view.row_as<uint16_t>(y)[i] / 65535.0;
    default:
      return view.row_as<float>(y)[i];
  }
}

// Sample (x, y, c) of `view` after conversion to `channels` channels.
double Expected(ImageView view, int channels, int x, int y, int c) {
  const int from = view.spec.channels;
  const double alpha = from % 2 == 0 ? Sample(view, x, y, from - 1) : 1;
  if (channels % 2 == 0 && c == channels - 1) return alpha;
  const auto colour = [&](int k) {
    const double value = Sample(view, x, y, from < 3 ? 0 : k);
    return channels % 2 == 0 ? value : value * alpha + 1 - alpha;
  };
  if (channels >= 3) return colour(c);
  return from < 3 ? colour(0) : 0.299 * colour(0) + 0.587 * colour(1) + 0.114 * colour(2);
}

TEST(ConvertTest, EveryPairOfChannelsAndTypes) {
  std::mt19937 random = test::FreshRandom();
  for (SampleType from_type : kSampleTypes)
    for (SampleType to_type : kSampleTypes)
      for (int from = 1; from <= 4; ++from)
        for (int to = 1; to <= 4; ++to) {
          SCOPED_TRACE(::testing::Message() << from << " channels to " << to);
          const Image src = test::RandomImage({37, 5, from, from_type}, random);
          const Image dst = Converted(src.view(), to, to_type);
          // One rounding a step: over white, luma, depth.
          const double max = to_type == SampleType::kU8    ? 255.0
                             : to_type == SampleType::kU16 ? 65535.0
                                                           : 1e6;
          const double source_max = from_type == SampleType::kU8 ? 255.0 : 65535.0;
          const double tolerance = 0.505 / max + (from == to ? 0 : 1.001 / source_max);
          for (int y = 0; y < 5; ++y)
            for (int x = 0; x < 37; ++x)
              for (int c = 0; c < to; ++c)
                ASSERT_NEAR(Sample(dst.view(), x, y, c), Expected(src.view(), to, x, y, c),
                            tolerance);
        }
}

TEST(ConvertTest, RoundsOnceWithinAType) {
  std::mt19937 random = test::FreshRandom();
  for (SampleType type : {SampleType::kU8, SampleType::kU16}) {
    const double max = type == SampleType::kU8 ? 255 : 65535;
    const Image rgb = test::RandomImage({500, 1, 3, type}, random);
    const Image gray = Converted(rgb.view(), 1, type);
    const Image rgba = test::RandomImage({500, 1, 4, type}, random);
    const Image flat = Converted(rgba.view(), 3, type);
    for (int x = 0; x < 500; ++x) {
      EXPECT_LE(std::abs(Sample(gray.view(), x, 0, 0) - Expected(rgb.view(), 1, x, 0, 0)) * max,
                0.5001);
      EXPECT_LE(std::abs(Sample(flat.view(), x, 0, 1) - Expected(rgba.view(), 3, x, 0, 1)) * max,
                0.5001);
    }
  }
}

TEST(ConvertTest, RowsComeInAnyPortions) {
  std::mt19937 random = test::FreshRandom();
  const Image src = test::RandomImage({23, 71, 4, SampleType::kU16}, random);
  for (const ImageSpec& spec : {ImageSpec{23, 71, 1, SampleType::kU8}, src.spec()}) {
    const Image expected = Converted(src.view(), spec.channels, spec.type);
    test::ViewRows rows(src.view());
    const auto converted = ConvertRows(rows, spec);
    EXPECT_EQ(converted->spec(), spec);
    const auto image = test::ReadAllInPortions(*converted, random);
    ASSERT_TRUE(image.ok()) << image.status();
    EXPECT_TRUE(test::SameImages(image->view(), expected.view()));
    test::ViewRows again(src.view());
    EXPECT_TRUE(
        test::SameImages(test::ReadAll(*ConvertRows(again, spec))->view(), expected.view()));
  }
}

}  // namespace
}  // namespace upscaled
