// The resizer against a direct two-dimensional sum in double.
#include "engine/image/resample.h"

#include <cmath>
#include <numbers>

#include <gtest/gtest.h>

#include "tests/support/test_image.h"

namespace upscaled {
namespace {

double Kernel(Filter filter, double x) {
  x = std::abs(x);
  if (filter == Filter::kLanczos3) {
    if (x >= 3) return 0;
    if (x < 1e-12) return 1;
    const double p = std::numbers::pi * x;
    return 3 * std::sin(p) * std::sin(p / 3) / (p * p);
  }
  if (x >= 2) return 0;
  return x < 1 ? 1.5 * x * x * x - 2.5 * x * x + 1 : -0.5 * x * x * x + 2.5 * x * x - 4 * x + 2;
}

// Weight of every source sample for result sample i of the part that begins at `begin`.
std::vector<double> Weights(Filter filter, int source, int begin, int length, int result, int i) {
  const double ratio = static_cast<double>(length) / result, widening = std::max(1.0, ratio);
  std::vector<double> weights(source);
  double sum = 0;
  for (int k = 0; k < source; ++k)
    sum += weights[k] = Kernel(filter, (k - begin + 0.5 - (i + 0.5) * ratio) / widening);
  for (double& weight : weights) weight /= sum;
  return weights;
}

double SampleAt(ImageView view, int x, int y, int c) {
  const int i = x * view.spec.channels + c;
  switch (view.spec.type) {
    case SampleType::kU8:
      return view.row(y)[i];
    case SampleType::kU16:
      return view.row_as<uint16_t>(y)[i];
    default:
      return view.row_as<float>(y)[i];
  }
}

double Full(SampleType type) {
  return type == SampleType::kU8 ? 255 : type == SampleType::kU16 ? 65535 : 1;
}

// The exact result of pixel (x, y), not rounded; with alpha, colours are weighted by it.
std::vector<double> Exact(ImageView src, const Rect& part, Size result, Filter filter, int x,
                          int y) {
  const std::vector<double> wx =
      Weights(filter, src.width_px(), part.x, part.width, result.width, x);
  const std::vector<double> wy =
      Weights(filter, src.height_px(), part.y, part.height, result.height, y);
  const int channels = src.spec.channels;
  const double full = Full(src.spec.type);
  std::vector<double> sum(channels);
  for (int sy = 0; sy < src.height_px(); ++sy)
    for (int sx = 0; sx < src.width_px(); ++sx) {
      const double alpha = src.spec.has_alpha() ? SampleAt(src, sx, sy, channels - 1) / full : 1;
      for (int c = 0; c < channels; ++c) {
        const bool is_alpha = src.spec.has_alpha() && c == channels - 1;
        sum[c] += wy[sy] * wx[sx] * SampleAt(src, sx, sy, c) * (is_alpha ? 1 : alpha);
      }
    }
  if (src.spec.has_alpha())
    for (int c = 0; c < channels - 1; ++c) sum[c] /= sum[channels - 1] / full;
  return sum;
}

void ExpectExactPart(ImageView src, const Rect& part, Size size, Filter filter,
                     std::mt19937& random) {
  SCOPED_TRACE(::testing::Message()
               << src.spec << ", " << part.width << " x " << part.height << " at " << part.x << ", "
               << part.y << " to " << size.width << " x " << size.height << ", filter "
               << static_cast<int>(filter));
  test::ViewRows rows(src);
  const RowStage stage = PlanResizeOfPart(src.spec, part, size, filter, AlphaColour::kBleed);
  const auto resized = test::ReadAllInPortions(*stage.make(rows), random);
  ASSERT_TRUE(resized.ok()) << resized.status();
  const ImageView view = resized->view();
  ASSERT_EQ(view.spec.size(), size);
  const double full = Full(src.spec.type);
  const bool is_float = src.spec.type == SampleType::kF32;
  const int channels = src.spec.channels;
  for (int y = 0; y < size.height; ++y)
    for (int x = 0; x < size.width; ++x) {
      const std::vector<double> exact = Exact(src, part, size, filter, x, y);
      const double alpha = src.spec.has_alpha() ? exact[channels - 1] / full : 1;
      for (int c = 0; c < channels; ++c) {
        const bool is_alpha = src.spec.has_alpha() && c == channels - 1;
        if (!is_alpha && alpha < 0.02) continue;  // nearly invisible: any colour does
        double expected = exact[c];
        if (!is_float || is_alpha) expected = std::clamp(expected, 0.0, full);
        const double tolerance = (is_float ? 0 : 0.5) + 3e-6 * full / std::min(1.0, alpha * alpha);
        ASSERT_NEAR(SampleAt(view, x, y, c), expected, tolerance)
            << "(" << x << ", " << y << "), channel " << c;
      }
    }
}

void ExpectExact(ImageView src, Size size, Filter filter, std::mt19937& random) {
  ExpectExactPart(src, {0, 0, src.width_px(), src.height_px()}, size, filter, random);
}

constexpr Size kResampleSizes[] = {{1, 1}, {2, 3}, {5, 40}, {40, 5}, {21, 19}, {33, 50}};

TEST(ResampleTest, AgreesWithDirectSums) {
  std::mt19937 random = test::FreshRandom();
  for (SampleType type : {SampleType::kU8, SampleType::kU16, SampleType::kF32})
    for (int channels : {1, 3})
      for (Size from : kResampleSizes)
        for (Size to : kResampleSizes)
          for (Filter filter : {Filter::kLanczos3, Filter::kCatmullRom}) {
            const Image src = test::RandomImage({from.width, from.height, channels, type}, random);
            ExpectExact(src.view(), to, filter, random);
          }
}

TEST(ResampleTest, PartsAreResizedWithinTheirSurroundings) {
  std::mt19937 random = test::FreshRandom();
  for (int channels : {1, 3, 4})
    for (const Rect& part : {Rect{9, 7, 21, 19}, {0, 13, 40, 2}, {30, 0, 3, 33}, {39, 32, 1, 1}})
      for (Size to : kResampleSizes)
        for (Filter filter : {Filter::kLanczos3, Filter::kCatmullRom}) {
          const Image src = test::PhotoImage({40, 33, channels, SampleType::kU8}, random);
          ExpectExactPart(src.view(), part, to, filter, random);
        }
}

TEST(ResampleTest, WeighsColoursByAlpha) {
  std::mt19937 random = test::FreshRandom();
  for (SampleType type : {SampleType::kU8, SampleType::kU16, SampleType::kF32})
    for (int channels : {2, 4})
      for (Size to : kResampleSizes) {
        const Image src = test::PhotoImage({27, 22, channels, type}, random);
        ExpectExact(src.view(), to, Filter::kLanczos3, random);
      }
}

TEST(ResampleTest, HiddenColoursDoNotShow) {
  // A red square on transparent green.
  Image src({20, 20, 4, SampleType::kU8});
  for (int y = 0; y < 20; ++y)
    for (int x = 0; x < 20; ++x) {
      const bool inside = x >= 5 && x < 15 && y >= 5 && y < 15;
      uint8_t* pixel = src.mutable_view().row(y) + 4 * x;
      pixel[0] = inside ? 200 : 0, pixel[1] = inside ? 0 : 255, pixel[2] = 0;
      pixel[3] = inside ? 255 : 0;
    }
  for (Size to : {Size{47, 53}, Size{7, 9}}) {
    test::ViewRows rows(src.view());
    const auto resized = test::ReadAll(*MakeResizer(rows, to, Filter::kLanczos3));
    ASSERT_TRUE(resized.ok());
    for (int y = 0; y < to.height; ++y)
      for (int x = 0; x < to.width; ++x) {
        const uint8_t* pixel = resized->view().row(y) + 4 * x;
        EXPECT_EQ(pixel[1], 0);
        EXPECT_EQ(pixel[0], pixel[3] > 0 ? 200 : 0);
      }
  }
}

TEST(ResampleTest, KeptColoursAreResizedWhateverTheirAlpha) {
  std::mt19937 random = test::FreshRandom();
  for (const int channels : {2, 4}) {
    for (Size to : {Size{47, 53}, Size{7, 9}}) {
      const Image src = test::RandomImage({20, 21, channels, SampleType::kU16}, random);
      test::ViewRows rows(src.view());
      const auto resized =
          test::ReadAll(*MakeResizer(rows, to, Filter::kLanczos3, AlphaColour::kKeep));
      ASSERT_TRUE(resized.ok());
      for (int c = 0; c < channels; ++c) {
        Image plane({20, 21, 1, SampleType::kU16});
        for (int y = 0; y < 21; ++y)
          for (int x = 0; x < 20; ++x)
            plane.mutable_view().row_as<uint16_t>(y)[x] =
                src.view().row_as<uint16_t>(y)[x * channels + c];
        test::ViewRows plane_rows(plane.view());
        const auto expected = test::ReadAll(*MakeResizer(plane_rows, to, Filter::kLanczos3));
        ASSERT_TRUE(expected.ok());
        for (int y = 0; y < to.height; ++y)
          for (int x = 0; x < to.width; ++x)
            ASSERT_NEAR(resized->view().row_as<uint16_t>(y)[x * channels + c],
                        expected->view().row_as<uint16_t>(y)[x], 1);
      }
    }
  }
}

TEST(ResampleTest, SameSizeGivesTheSameImage) {
  std::mt19937 random = test::FreshRandom();
  for (SampleType type : {SampleType::kU8, SampleType::kU16, SampleType::kF32})
    for (int channels : {1, 3}) {
      const Image src = test::RandomImage({31, 17, channels, type}, random);
      test::ViewRows rows(src.view());
      const auto resized = test::ReadAll(*MakeResizer(rows, src.spec().size(), Filter::kLanczos3));
      ASSERT_TRUE(resized.ok());
      EXPECT_TRUE(test::SameImages(resized->view(), src.view()));
    }
}

TEST(ResampleTest, FlatColourStaysFlat) {
  for (SampleType type : {SampleType::kU8, SampleType::kU16}) {
    Image src({64, 90, 3, type});
    std::memset(src.mutable_view().data, 0x9C, src.bytes());
    for (Size to : {Size{1, 1}, Size{63, 91}, Size{200, 7}}) {
      test::ViewRows rows(src.view());
      const auto resized = test::ReadAll(*MakeResizer(rows, to, Filter::kLanczos3));
      ASSERT_TRUE(resized.ok());
      const uint8_t* bytes = resized->view().data;
      EXPECT_TRUE(std::all_of(bytes, bytes + resized->bytes(), [](int b) { return b == 0x9C; }));
    }
  }
}

TEST(ResampleTest, RowsDoNotDependOnHowTheyAreRead) {
  std::mt19937 random = test::FreshRandom();
  const Image src = test::RandomImage({50, 80, 4, SampleType::kU8}, random);
  for (Size to : {Size{120, 190}, Size{20, 30}, Size{90, 11}}) {
    test::ViewRows rows(src.view());
    const auto expected = test::ReadAll(*MakeResizer(rows, to, Filter::kCatmullRom));
    ASSERT_TRUE(expected.ok());
    for (int portion : {1, 2, 7}) {
      test::ViewRows again(src.view());
      const auto resized = test::ReadAll(*MakeResizer(again, to, Filter::kCatmullRom), portion);
      ASSERT_TRUE(resized.ok());
      EXPECT_TRUE(test::SameImages(resized->view(), expected->view()));
    }
  }
}

TEST(ResampleTest, MemoryDoesNotGrowWithTheProductOfTheSides) {
  const ImageSpec thin = {1, 65535, 4, SampleType::kU8};
  EXPECT_LT(PlanResize(thin, {65535, 1}, Filter::kLanczos3).memory_bytes, size_t{32} << 20);
  const ImageSpec wide = {65535, 1, 4, SampleType::kU8};
  EXPECT_LT(PlanResize(wide, {1, 65535}, Filter::kLanczos3).memory_bytes, size_t{32} << 20);
}

TEST(ResampleTest, ErrorsOfTheSourcePassThrough) {
  class Broken final : public RowSource {
   public:
    const ImageSpec& spec() const override { return spec_; }
    absl::Status ReadRows(MutableImageView) override { return absl::CancelledError("stop"); }

   private:
    ImageSpec spec_ = {8, 8, 3, SampleType::kU8};
  } broken;
  EXPECT_EQ(test::ReadAll(*MakeResizer(broken, {4, 4}, Filter::kLanczos3)).status(),
            absl::CancelledError("stop"));
}

}  // namespace
}  // namespace upscaled
