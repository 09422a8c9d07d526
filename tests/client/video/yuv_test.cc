#include "client/video/yuv.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/image/memory_io.h"
#include "gtest/gtest.h"

namespace upscaled::client {
namespace {

// BT.601, 709 and 2020 in double precision, written from the recommendations: of a colour, 0..1,
// its samples.
std::array<int, 3> Samples(double r, double g, double b, Matrix matrix, int depth, bool full) {
  const double kr = std::array{0.299, 0.2126, 0.2627}[static_cast<size_t>(matrix)];
  const double kb = std::array{0.114, 0.0722, 0.0593}[static_cast<size_t>(matrix)];
  const double y = kr * r + (1 - kr - kb) * g + kb * b;
  const double cb = (b - y) / (2 - 2 * kb), cr = (r - y) / (2 - 2 * kr);
  const double scale = std::pow(2, depth - 8), most = std::pow(2, depth) - 1;
  const auto luma = [&](double v) { return full ? v * most : scale * (16 + 219 * v); };
  const auto chroma = [&](double v) {
    return full ? v * most + 128 * scale : scale * (128 + 224 * v);
  };
  const auto store = [&](double v) {
    return static_cast<int>(std::lround(std::clamp(v, 0.0, most)));
  };
  return {store(luma(y)), store(chroma(cb)), store(chroma(cr))};
}

int SampleAt(const std::string& frame, size_t index, int depth) {
  const std::span<const uint8_t> bytes = AsBytes(frame);
  return depth > 8 ? bytes[2 * index] | bytes[2 * index + 1] << 8 : bytes[index];
}

// One colour everywhere, at any size, chroma and siting.
TEST(YuvTest, FlatColoursHaveTheSamplesOfTheRecommendations) {
  constexpr std::array<std::array<int, 3>, 7> kColours = {{{255, 255, 255},
                                                           {0, 0, 0},
                                                           {255, 0, 0},
                                                           {0, 255, 0},
                                                           {0, 0, 255},
                                                           {128, 128, 128},
                                                           {200, 30, 90}}};
  for (const Matrix matrix : {Matrix::kBt601, Matrix::kBt709, Matrix::kBt2020}) {
    for (const bool full : {false, true}) {
      for (const int depth : {8, 10, 12, 16}) {
        for (const Chroma chroma : {Chroma::kMono, Chroma::k420, Chroma::k422, Chroma::k444}) {
          for (const Siting siting : {Siting::kLeft, Siting::kCenter, Siting::kTopLeft}) {
            const YuvFormat format{.size = {5, 3},
                                   .chroma = chroma,
                                   .siting = siting,
                                   .depth = depth,
                                   .full_range = full,
                                   .matrix = matrix};
            for (const auto& colour : kColours) {
              Image image({5, 3, 3, SampleType::kU8});
              for (int i = 0; i < 15; ++i)
                for (size_t c = 0; c < 3; ++c)
                  image.mutable_view().data[3 * static_cast<size_t>(i) + c] =
                      static_cast<uint8_t>(colour[c]);
              const std::string frame = RgbToYuv(image.view(), format);
              ASSERT_EQ(frame.size(), format.frame_bytes());
              const auto want = Samples(colour[0] / 255.0, colour[1] / 255.0, colour[2] / 255.0,
                                        matrix, depth, full);
              const int slack = depth == 16 ? 2 : depth == 8 ? 0 : 1;  // of float, near .5
              const auto at = [&](size_t i) { return SampleAt(frame, i, depth); };
              const auto chroma_samples = static_cast<size_t>(format.chroma_size().Area());
              for (size_t i = 0; i < 15; ++i) ASSERT_NEAR(at(i), want[0], slack);
              for (size_t i = 0; i < chroma_samples; ++i) {
                ASSERT_NEAR(at(15 + i), want[1], slack) << depth << " " << full;
                ASSERT_NEAR(at(15 + chroma_samples + i), want[2], slack) << depth << " " << full;
              }
              if (chroma == Chroma::kMono) continue;
              const Image back = YuvToRgb(AsBytes(frame), format);
              for (size_t c = 0; c < 3; ++c) {
                const int got = depth > 8 ? back.view().row_as<uint16_t>(2)[12 + c] / 257
                                          : back.view().row(2)[12 + c];
                ASSERT_NEAR(got, colour[c], 2)
                    << absl::StrCat(static_cast<int>(matrix), " ", depth);
              }
            }
          }
        }
      }
    }
  }
}

TEST(YuvTest, MonoIsGrayOfFullRange) {
  const YuvFormat format{.size = {4, 1}, .chroma = Chroma::kMono};
  const std::string frame = {16, static_cast<char>(235), 126, 0};
  const Image image = YuvToRgb(AsBytes(frame), format);
  EXPECT_EQ(image.spec(), (ImageSpec{4, 1, 1, SampleType::kU8}));
  EXPECT_EQ(image.view().data[0], 0);
  EXPECT_EQ(image.view().data[1], 255);
  EXPECT_EQ(image.view().data[2], 128);
  EXPECT_EQ(image.view().data[3], 0);  // below black
  EXPECT_EQ(RgbToYuv(image.view(), format), std::string({16, static_cast<char>(235), 126, 16}));
}

// Sample `position` of a row, of which the edges are repeated, by the cubic at `width` times its
// width, in double precision.
double AtPosition(const std::vector<double>& row, double position, double width) {
  const auto cubic = [](double x) {
    x = std::abs(x);
    if (x < 1) return 1 + x * x * (1.5 * x - 2.5);
    return x < 2 ? 2 + x * (-4 + x * (2.5 - 0.5 * x)) : 0;
  };
  double sum = 0, weights = 0;
  const int middle = static_cast<int>(std::floor(position));
  for (int i = middle - 5; i <= middle + 6; ++i) {
    const double weight = cubic((position - i) / width);
    const int inside = std::clamp(i, 0, static_cast<int>(row.size()) - 1);
    sum += weight * row[static_cast<size_t>(inside)];
    weights += weight;
  }
  return sum / weights;
}

// At every width, whether it halves evenly or not. All rows are equal.
TEST(YuvTest, ChromaIsResampledByTheCubicAtItsSiting) {
  std::mt19937 random(std::random_device{}());
  constexpr int kHeight = 4, kMiddle = 1 << 15;
  for (int width = 1; width < 40; ++width) {
    for (const Siting siting : {Siting::kLeft, Siting::kCenter, Siting::kTopLeft}) {
      const YuvFormat format{
          .size = {width, kHeight}, .siting = siting, .depth = 16, .full_range = true};
      const double offset = siting == Siting::kCenter ? 0.5 : 0;
      const auto chroma_width = static_cast<size_t>(format.chroma_size().width);
      const auto luma_width = static_cast<size_t>(width);
      std::uniform_int_distribution<int> samples(kMiddle - 6000, kMiddle + 6000);

      // Red's difference of gray luma, enlarged.
      std::vector<double> red(chroma_width);
      for (double& sample : red) sample = samples(random);
      std::string frame;
      const auto append = [&](int sample) {
        frame += static_cast<char>(sample & 255);
        frame += static_cast<char>(sample >> 8);
      };
      for (size_t i = 0; i < luma_width * kHeight + chroma_width * kHeight / 2; ++i)
        append(kMiddle);
      for (size_t i = 0; i < chroma_width * kHeight / 2; ++i)
        append(static_cast<int>(red[i % chroma_width]));
      const Image image = YuvToRgb(AsBytes(frame), format);
      for (int x = 0; x < width; ++x) {
        const double difference = AtPosition(red, (x - offset) / 2, 1) - kMiddle;
        EXPECT_NEAR(image.view().row_as<uint16_t>(1)[3 * x],
                    kMiddle + 2 * (1 - 0.2126) * difference, 1.5)
            << width << " " << x;
      }

      // And reduced, of gray pixels with some red.
      Image source({width, kHeight, 3, SampleType::kU16});
      std::vector<double> pixels(luma_width);
      for (double& pixel : pixels) pixel = samples(random);
      for (int y = 0; y < kHeight; ++y) {
        auto* const row = source.mutable_view().row_as<uint16_t>(y);
        std::fill(row, row + 3 * luma_width, kMiddle);
        for (size_t x = 0; x < luma_width; ++x) row[3 * x] = static_cast<uint16_t>(pixels[x]);
      }
      const std::string reduced = RgbToYuv(source.view(), format);
      for (size_t i = 0; i < chroma_width; ++i) {
        const double pixel = AtPosition(pixels, 2 * static_cast<double>(i) + offset, 2);
        const size_t at = luma_width * kHeight + chroma_width * kHeight / 2 + i;
        EXPECT_NEAR(SampleAt(reduced, at, 16), kMiddle + (pixel - kMiddle) / 2, 1.5)
            << width << " " << i;
      }
    }
  }
}

// A smooth picture: all kinds of chroma bring it back.
std::string SmoothFrame(const YuvFormat& format) {
  Image image({format.size.width, format.size.height, 3, SampleType::kU16});
  for (int y = 0; y < format.size.height; ++y)
    for (int x = 0; x < format.size.width; ++x)
      for (int c = 0; c < 3; ++c)
        image.mutable_view().row_as<uint16_t>(y)[3 * x + c] = static_cast<uint16_t>(
            32768 + 24000 * std::sin(0.05 * x * (c + 1) + 0.07 * y * (3 - c) + c));
  return RgbToYuv(image.view(), format);
}

double Psnr(const std::string& a, const std::string& b, int depth) {
  double sum = 0;
  const size_t samples = a.size() / (depth > 8 ? 2 : 1);
  for (size_t i = 0; i < samples; ++i) {
    const double difference = SampleAt(a, i, depth) - SampleAt(b, i, depth);
    sum += difference * difference;
  }
  const double most = std::pow(2, depth) - 1;
  return 10 * std::log10(most * most * static_cast<double>(samples) / std::max(sum, 1e-9));
}

// Every depth, range and matrix.
std::vector<YuvFormat> FormatsOf(Size size, Chroma chroma, Siting siting) {
  std::vector<YuvFormat> formats;
  for (const int depth : {8, 9, 10, 12, 14, 16})
    for (const bool full_range : {false, true})
      for (const Matrix matrix : {Matrix::kBt601, Matrix::kBt709, Matrix::kBt2020})
        formats.push_back({.size = size,
                           .chroma = chroma,
                           .siting = siting,
                           .depth = depth,
                           .full_range = full_range,
                           .matrix = matrix});
  return formats;
}

TEST(YuvTest, SmoothFramesComeBackAtOddSizesAndAllSitings) {
  for (const Size size : {Size{97, 61}, Size{64, 48}, Size{33, 2}}) {
    for (const Chroma chroma : {Chroma::kMono, Chroma::k420, Chroma::k422, Chroma::k444}) {
      for (const Siting siting : {Siting::kLeft, Siting::kCenter, Siting::kTopLeft}) {
        for (const YuvFormat& format : FormatsOf(size, chroma, siting)) {
          const std::string frame = SmoothFrame(format);
          const std::string back = RgbToYuv(YuvToRgb(AsBytes(frame), format).view(), format);
          ASSERT_GT(Psnr(frame, back, format.depth), 46)
              << size.width << " " << static_cast<int>(chroma) << " " << static_cast<int>(siting)
              << " " << format.depth << " " << format.full_range << " "
              << static_cast<int>(format.matrix);
        }
      }
    }
  }
}

// A ramp of chroma stays where it is: a wrong siting shifts it by half a sample.
TEST(YuvTest, ChromaStaysAtItsSiting) {
  for (const Siting siting : {Siting::kLeft, Siting::kCenter, Siting::kTopLeft}) {
    const YuvFormat format{.size = {32, 32}, .siting = siting, .depth = 16, .full_range = true};
    std::string frame(format.frame_bytes(), '\0');
    const auto put = [&](size_t at, int value) {
      frame[2 * at] = static_cast<char>(value & 0xFF);
      frame[2 * at + 1] = static_cast<char>(value >> 8);
    };
    for (size_t i = 0; i < 1024; ++i) put(i, 32768);
    for (size_t y = 0; y < 16; ++y) {
      for (size_t x = 0; x < 16; ++x) {
        put(1024 + 16 * y + x, 32768);
        put(1280 + 16 * y + x, 32768 + 200 * static_cast<int>(x) + 400 * static_cast<int>(y));
      }
    }
    const Image image = YuvToRgb(AsBytes(frame), format);
    const double offset_x = siting == Siting::kCenter ? 0.5 : 0;
    const double offset_y = siting == Siting::kTopLeft ? 0 : 0.5;
    const double red = image.view().row_as<uint16_t>(15)[3 * 17];
    const double difference = 200 * (17 - offset_x) / 2 + 400 * (15 - offset_y) / 2;
    EXPECT_NEAR(red, 32768 + 2 * (1 - 0.2126) * difference, 4) << static_cast<int>(siting);
  }
}

std::string RandomFrame(const YuvFormat& format, std::mt19937& random) {
  std::string frame;
  while (frame.size() < format.frame_bytes()) {
    const unsigned value = random() & ((1u << format.depth) - 1);
    frame.push_back(static_cast<char>(value & 0xFF));
    if (format.depth > 8) frame.push_back(static_cast<char>(value >> 8));
  }
  return frame;
}

TEST(YuvTest, ResampledChromaOfOneSizeIsTheFramesOwn) {
  std::mt19937 random(std::random_device{}());
  for (const Chroma chroma : {Chroma::kMono, Chroma::k420, Chroma::k422, Chroma::k444}) {
    for (const Siting siting : {Siting::kLeft, Siting::kCenter, Siting::kTopLeft}) {
      for (const int depth : {8, 10}) {
        const YuvFormat format{.size = {9, 5}, .chroma = chroma, .siting = siting, .depth = depth};
        const std::string frame = RandomFrame(format, random);
        EXPECT_EQ(ResampleChroma(AsBytes(frame), format, format.size),
                  frame.substr(45 * format.sample_bytes()));
      }
    }
  }
}

// A ramp of chroma goes on at each sample's place in the enlarged and in the reduced frame.
TEST(YuvTest, ResampledChromaStaysAtItsSiting) {
  constexpr int kSide = 48;
  for (const Chroma chroma : {Chroma::k420, Chroma::k422, Chroma::k444}) {
    for (const Siting siting : {Siting::kLeft, Siting::kCenter, Siting::kTopLeft}) {
      for (const int side : {24, 48, 72, 96, 97, 192}) {
        YuvFormat format{.size = {kSide, kSide}, .chroma = chroma, .siting = siting, .depth = 16};
        const int step_x = chroma == Chroma::k444 ? 1 : 2, step_y = chroma == Chroma::k420 ? 2 : 1;
        const double x0 = chroma == Chroma::k420 && siting == Siting::kCenter ? 0.5 : 0;
        const double y0 = chroma == Chroma::k420 && siting != Siting::kTopLeft ? 0.5 : 0;
        const auto ramp = [](double x, double y) { return 20000 + 100 * x + 200 * y; };
        std::string frame(format.sample_bytes() * kSide * kSide, '\0');
        const Size planes = format.chroma_size();
        for (int plane = 0; plane < 2; ++plane) {
          for (int y = 0; y < planes.height; ++y) {
            for (int x = 0; x < planes.width; ++x) {
              const auto value =
                  static_cast<int>(std::lround(ramp(step_x * x + x0, step_y * y + y0)));
              frame.push_back(static_cast<char>(value & 0xFF));
              frame.push_back(static_cast<char>(value >> 8));
            }
          }
        }
        const std::string resampled = ResampleChroma(AsBytes(frame), format, {side, side});
        format.size = {side, side};
        const Size to = format.chroma_size();
        ASSERT_EQ(resampled.size(), 4 * static_cast<size_t>(to.Area()));
        const double factor = static_cast<double>(kSide) / side;
        for (int y = to.height / 3; y < 2 * to.height / 3; ++y) {
          for (int x = to.width / 3; x < 2 * to.width / 3; ++x) {
            const double want = ramp((step_x * x + x0 + 0.5) * factor - 0.5,
                                     (step_y * y + y0 + 0.5) * factor - 0.5);
            ASSERT_NEAR(SampleAt(resampled, static_cast<size_t>(y * to.width + x), 16), want, 12)
                << side << " " << static_cast<int>(chroma) << " " << static_cast<int>(siting);
          }
        }
      }
    }
  }
}

TEST(YuvTest, TakesGrayAndAlpha) {
  const YuvFormat format{.size = {2, 2}, .chroma = Chroma::k444, .full_range = true};
  Image gray({2, 2, 1, SampleType::kU8}), alpha({2, 2, 4, SampleType::kU8});
  for (size_t i = 0; i < 4; ++i) {
    gray.mutable_view().data[i] = static_cast<uint8_t>(50 * i);
    for (size_t c = 0; c < 4; ++c)
      alpha.mutable_view().data[4 * i + c] = static_cast<uint8_t>(50 * i);
  }
  EXPECT_EQ(RgbToYuv(gray.view(), format), RgbToYuv(alpha.view(), format));
}

}  // namespace
}  // namespace upscaled::client
