// Resizes by fractions and by bicubic interpolation, against sums of the test's own in float64.
#include "engine/model/fractional_resize.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/reference/reference_backend.h"
#include "engine/image/image.h"
#include "engine/model/loader.h"
#include "engine/model/ncnn_loader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/golden_files.h"
#include "tests/engine/model/loader_checks.h"
#include "tests/engine/model/ncnn_files.h"
#include "tests/support/run_image.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::FreshRandom;
using test::NcnnFiles;
using test::RandomImage;

Image ComputeImage(const Network& network, const Image& source) {
  const auto backend = CreateReferenceBackend({}).value();
  const auto executable = backend->Compile(network, Precision::kExact).value();
  const Size size = source.spec().size();
  Image result({size.width * network.scale, size.height * network.scale, 3, SampleType::kF32});
  const absl::Status ran =
      test::RunImage(*backend->CreateStream(), *executable,
                     {test::WholeTask(*executable, source.view(), result.mutable_view())});
  EXPECT_TRUE(ran.ok()) << ran;
  return result;
}

// Weights of the four pixels around a point that lies `t` behind the second: PyTorch's, of
// upsample_bicubic2d, written out.
std::vector<double> BicubicWeights(double t) {
  const double a = -0.75, u = 1 - t;
  return {((a * (t + 1) - 5 * a) * (t + 1) + 8 * a) * (t + 1) - 4 * a,
          ((a + 2) * t - (a + 3)) * t * t + 1, ((a + 2) * u - (a + 3)) * u * u + 1,
          ((a * (u + 1) - 5 * a) * (u + 1) + 8 * a) * (u + 1) - 4 * a};
}

double Sample(const Image& image, double y, double x, int channel, int type) {
  const auto at = [&](double row, double column) {
    const int clamped_row = std::clamp<int>(row, 0, image.spec().height_px - 1);
    const int clamped = std::clamp<int>(column, 0, image.spec().width_px - 1);
    return double{image.view().row_as<float>(clamped_row)[3 * clamped + channel]};
  };
  if (type == 1) return at(std::floor(y), std::floor(x));
  const double top = std::floor(y - 0.5), left = std::floor(x - 0.5);
  const double down = y - 0.5 - top, right = x - 0.5 - left;
  if (type == 2) {
    return (1 - down) * ((1 - right) * at(top, left) + right * at(top, left + 1)) +
           down * ((1 - right) * at(top + 1, left) + right * at(top + 1, left + 1));
  }
  double sum = 0;
  const std::vector<double> rows = BicubicWeights(down), columns = BicubicWeights(right);
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) sum += rows[i] * columns[j] * at(top - 1 + i, left - 1 + j);
  }
  return sum;
}

// `result` is `image`, resized by `factor` as ncnn's Interp of that type does.
void ExpectResized(const Image& image, const Image& result, int type, double factor) {
  ASSERT_EQ(result.spec().width_px, std::lround(image.spec().width_px * factor));
  ASSERT_EQ(result.spec().height_px, std::lround(image.spec().height_px * factor));
  double difference = 0;
  for (int y = 0; y < result.spec().height_px; ++y) {
    for (int i = 0; i < 3 * result.spec().width_px; ++i) {
      // Offset of centres, or of corners for the nearest, whose floor is the pixel.
      const double offset = type == 1 ? 1e-9 : 0.5;
      const double wanted =
          Sample(image, (y + offset) / factor, (i / 3 + offset) / factor, i % 3, type);
      difference = std::max(difference, std::abs(wanted - result.view().row_as<float>(y)[i]));
    }
  }
  EXPECT_LT(difference, 2e-5);
}

// x4, and then what `more` says.
NcnnFiles Enlarged(const std::string& more = "") {
  NcnnFiles files;
  files.Line("Input in 0 1 x").Line("Convolution conv 1 1 x y 0=48 1=3 4=1 5=1 6=1296");
  files.Line("PixelShuffle shuffle 1 1 y z 0=4");
  if (!more.empty()) files.Line(absl::StrCat("Interp resize 1 1 z w ", more));
  std::mt19937 random(7);
  std::uniform_real_distribution<float> weight(-0.2f, 0.2f);
  std::vector<float> weights(1296 + 48);
  for (float& value : weights) value = weight(random);
  files.Tag(0).Values(weights);
  return files;
}

absl::StatusOr<Network> ParseNetwork(const NcnnFiles& files) {
  return ParseNcnn(files.param(), files.bin);
}

TEST(FractionalResizeTest, OfEveryTypeAndFactor) {
  std::mt19937 random = FreshRandom();
  const auto enlarged = ParseNetwork(Enlarged());
  ASSERT_TRUE(enlarged.ok()) << enlarged.status();
  for (const Size size : {Size{1, 1}, {2, 1}, {3, 7}, {13, 5}}) {
    const Image source = RandomImage({size.width, size.height, 3, SampleType::kU8}, random);
    const Image four = ComputeImage(*enlarged, source);
    for (const int type : {1, 2, 3}) {
      for (const double factor : {0.25, 0.5, 0.75, 1.25, 1.5, 2.0, 3.0}) {
        SCOPED_TRACE(absl::StrCat("type ", type, " factor ", factor, " of ", size.width));
        const auto network =
            ParseNetwork(Enlarged(absl::StrCat("0=", type, " 1=", factor, " 2=", factor)));
        ASSERT_TRUE(network.ok()) << network.status();
        EXPECT_EQ(network->scale, 4 * factor);
        ExpectResized(four, ComputeImage(*network, source), type, factor);
      }
    }
  }
}

TEST(FractionalResizeTest, FactorsThatAreNoFractionsAreRefused) {
  const auto parse = [](const std::string& factors) {
    return ParseNetwork(Enlarged("0=3 " + factors));
  };
  ExpectError(parse("1=0.7 2=0.7"), absl::StatusCode::kUnimplemented,
              "factor 0.7 is not supported");
  ExpectError(parse("1=0.5 2=0.75"), absl::StatusCode::kUnimplemented, "horizontal factor 0.75");
  ExpectError(parse("1=9 2=9"), absl::StatusCode::kUnimplemented, "factor 9 is not supported");
  ExpectError(parse("1=0 2=0"), absl::StatusCode::kUnimplemented, "factor 0 is not supported");
  ExpectError(parse("1=-0.5 2=-0.5"), absl::StatusCode::kUnimplemented, "factor -0.5");
  ExpectError(parse("1=0.125 2=0.125"), absl::StatusCode::kInvalidArgument, "scale by 0.5");
  EXPECT_FALSE(FractionOf(std::nan("")).has_value());
  EXPECT_EQ(FractionOf(0.6666667)->up, 2);
  EXPECT_EQ(FractionOf(0.6666667)->down, 3);
}

// realesr-animevideov3 as it is published: 17 convolutions with PReLU, a shuffle by four, the
// enlarged image added; at x2 and x3 the result is shrunk.
NcnnFiles AnimeVideo(const std::string& shrink) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  NcnnFiles files;
  files.Line("Input input.1 0 1 data");
  files.Line("Split splitncnn_input0 1 2 data input.1_splitncnn_0 input.1_splitncnn_1");
  std::string blob = "input.1_splitncnn_1";
  for (int i = 0; i < 18; ++i) {
    const int in = i == 0 ? 3 : 64, out = i == 17 ? 48 : 64;
    files.Line(absl::StrCat("Convolution Conv_", 2 * i, " 1 1 ", blob, " c", i, " 0=", out,
                            " 1=3 4=1 5=1 6=", in * out * 9));
    std::vector<float> weights(in * out * 9 + out);
    for (float& value : weights) value = normal(random) / std::sqrt(9.0f * in);
    files.Tag(0).Values(weights);
    blob = absl::StrCat("c", i);
    if (i == 17) break;
    files.Line(absl::StrCat("PReLU PRelu_", 2 * i + 1, " 1 1 ", blob, " p", i, " 0=64"));
    files.Values(std::vector<float>(64, 0.25f));
    blob = absl::StrCat("p", i);
  }
  files.Line(absl::StrCat("PixelShuffle DepthToSpace_35 1 1 ", blob, " 106 0=4"));
  files.Line("Interp Resize_37 1 1 input.1_splitncnn_0 111 0=1 1=4.000000e+00 2=4.000000e+00");
  files.Line("BinaryOp Add_38 2 1 106 111 112");
  if (!shrink.empty()) {
    files.Line(absl::StrCat("Interp Resize_40 1 1 112 output 0=3 1=", shrink, " 2=", shrink));
  }
  return files;
}

TEST(FractionalResizeTest, AnimeVideoShrinksItsResultAsPublished) {
  std::mt19937 random = FreshRandom();
  const Image source = RandomImage({7, 5, 3, SampleType::kU8}, random);
  const auto four = ParseNetwork(AnimeVideo(""));
  ASSERT_TRUE(four.ok()) << four.status();
  EXPECT_EQ(four->scale, 4);
  const Image enlarged = ComputeImage(*four, source);
  for (const auto& [scale, shrink] : {std::pair{2, "5.000000e-01"}, {3, "7.500000e-01"}}) {
    const auto network = ParseNetwork(AnimeVideo(shrink));
    ASSERT_TRUE(network.ok()) << network.status();
    EXPECT_EQ(network->scale, scale);
    EXPECT_EQ(network->pad_px, 0);
    ExpectResized(enlarged, ComputeImage(*network, source), 3, scale / 4.0);
  }
}

TEST(FractionalResizeTest, PublishedFilesLoad) {
  const std::filesystem::path folder = test::SharedFolder() / "models/realesr-published";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no models under " << folder;
  std::mt19937 random = FreshRandom();
  const Image source = RandomImage({6, 4, 3, SampleType::kU8}, random);
  const auto four = LoadNetworkFile(folder / "realesr-animevideov3-x4.param");
  ASSERT_TRUE(four.ok()) << four.status();
  const Image enlarged = ComputeImage(*four, source);
  for (const int scale : {2, 3}) {
    const auto network =
        LoadNetworkFile(folder / absl::StrCat("realesr-animevideov3-x", scale, ".param"));
    ASSERT_TRUE(network.ok()) << network.status();
    EXPECT_EQ(network->scale, scale);
    ExpectResized(enlarged, ComputeImage(*network, source), 3, scale / 4.0);
  }
  EXPECT_TRUE(LoadNetworkFile(folder / "RealESRGAN_General_x4_v3.param").ok());
}

}  // namespace
}  // namespace upscaled
