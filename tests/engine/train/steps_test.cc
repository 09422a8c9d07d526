// Every step's derivatives against central differences in double.
#include <memory>
#include <string>

#include "engine/train/activation.h"
#include "engine/train/conv.h"
#include "engine/train/rearranging.h"
#include "tests/engine/train/gradients.h"
#include "tests/support/test_image.h"

namespace upscaled::train {
namespace {

constexpr double kRelative = 1e-6;

struct Case {
  std::string name;
  std::function<std::unique_ptr<Step<double>>()> make;
  int sources, src_channels, dst_channels;
  size_t parameters;
};

Layer ConvLayer(int kernel_px, int padding_px) {
  return {.op = Op::kConv,
          .out_channels = 3,
          .in_channels = 5,
          .kernel_px = kernel_px,
          .padding_px = padding_px};
}

Case ConvCase(std::string name, int kernel_px, int padding_px) {
  return {std::move(name),
          [=] { return std::make_unique<Conv<double>>(ConvLayer(kernel_px, padding_px)); },
          1,
          5,
          3,
          static_cast<size_t>(kernel_px * kernel_px * 15 + 3)};
}

Case RearrangeCase(std::string name, Rearrangement how, int src_channels, int dst_channels) {
  return {std::move(name),
          [=] { return std::make_unique<Rearrange<double>>(how); },
          1,
          src_channels,
          dst_channels,
          0};
}

std::vector<Case> Cases() {
  return {ConvCase("Conv3x3", 3, 0),
          ConvCase("Conv3x3Padded", 3, 1),
          ConvCase("Conv2x2", 2, 0),
          ConvCase("Conv1x1", 1, 0),
          {"LeakyRelu", [] { return std::make_unique<LeakyRelu<double>>(0.1); }, 1, 4, 4, 0},
          {"Relu", [] { return std::make_unique<LeakyRelu<double>>(0.0); }, 1, 4, 4, 0},
          {"PRelu", [] { return std::make_unique<PRelu<double>>(); }, 1, 4, 4, 4},
          {"Add", [] { return std::make_unique<Add<double>>(); }, 2, 4, 4, 0},
          RearrangeCase("Crop", {.crop_px = 2}, 4, 4),
          RearrangeCase("Nearest", {.factor = 3}, 4, 4),
          RearrangeCase("PixelShuffle", {.factor = 2, .shuffles = true}, 8, 2)};
}

class StepsTest : public ::testing::TestWithParam<Case> {};

// Sizes of several blocks of a convolution, and of lines wider than one.
TEST_P(StepsTest, DerivativesAreCentralDifferences) {
  std::mt19937 random = test::FreshRandom();
  for (const Grid& grid : {Grid{3, {7, 6}}, Grid{2, {25, 40}}, Grid{1, {800, 5}}}) {
    const std::unique_ptr<Step<double>> step = GetParam().make();
    std::vector<double> params = RandomNumbers(GetParam().parameters, random);
    std::vector<double> d_params(params.size());
    std::vector<Tensor<double>> src(GetParam().sources, {grid, GetParam().src_channels});
    std::vector<Tensor<double>> d_src = src;
    std::vector<const Tensor<double>*> sources;
    std::vector<Tensor<double>*> d_sources;
    for (size_t i = 0; i < src.size(); ++i) {
      FillPixels(src[i], random);
      sources.push_back(&src[i]);
      d_sources.push_back(&d_src[i]);
    }
    Tensor<double> dst({grid.images, step->OutputSize(grid.size)}, GetParam().dst_channels);
    Tensor<double> d_dst = dst;
    FillPixels(d_dst, random);
    const auto loss = [&] {
      step->Forward(params.data(), sources, dst);
      double sum = 0;
      for (size_t i = 0; i < dst.values().size(); ++i) sum += dst.values()[i] * d_dst.values()[i];
      return sum;
    };
    step->Backward(params.data(), sources, d_dst, d_sources, d_params.data());
    constexpr int kPlaces = 60;
    for (size_t i = 0; i < src.size(); ++i) {
      const std::vector<size_t> pixels = PixelsOf(src[i]);
      CheckDerivatives(loss, src[i].values(), pixels, d_src[i].values(), kPlaces, kRelative,
                       random);
      // What lies between them stays zero.
      std::vector<double> rest = d_src[i].values();
      for (const size_t pixel : pixels) rest[pixel] = 0;
      EXPECT_EQ(rest, std::vector<double>(rest.size()));
    }
    if (!params.empty()) {
      CheckDerivatives(loss, params, AllPlaces(params), d_params, kPlaces, kRelative, random);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, StepsTest, ::testing::ValuesIn(Cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace upscaled::train
