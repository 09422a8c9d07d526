// The oracle itself, against values worked out by hand, and convolutions against their definitions.
#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "engine/backends/reference/layers.h"
#include "engine/backends/reference/reference_backend.h"
#include "engine/backends/reference/tensor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/random_network.h"
#include "tests/engine/backends/tested_layers.h"
#include "tests/support/run_image.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using reference::ComputeLayer;
using reference::Tensor;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::FloatEq;
using ::testing::HasSubstr;
using ::testing::Pointwise;

Tensor MakeTensor(const Rect& region, std::vector<float> values) {
  Tensor tensor(region, static_cast<int>(values.size() / region.Area()));
  tensor.values = std::move(values);
  return tensor;
}

std::vector<float> Compute(const Layer& layer, const std::vector<Tensor>& inputs,
                           const Rect& region) {
  std::vector<const Tensor*> pointers;
  for (const Tensor& input : inputs) pointers.push_back(&input);
  Tensor dst(region, layer.out_channels);
  ComputeLayer(layer, pointers, dst);
  return dst.values;
}

Layer MakeLayer(Op op, int in, int out) {
  Layer layer{.op = op, .out_channels = out, .in_channels = in};
  return layer;
}

TEST(ReferenceLayersTest, ConvIsACorrelationWithBias) {
  Layer layer = MakeLayer(Op::kConv, 1, 1);
  layer.kernel_px = 2;
  layer.weights = {1, 10, 100, 1000};
  layer.bias = {0.5f};
  const Tensor src = MakeTensor({0, 0, 3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(Compute(layer, {src}, {0, 0, 2, 1}),
              ElementsAre(1 + 20 + 400 + 5000 + 0.5f, 2 + 30 + 500 + 6000 + 0.5f));
}

TEST(ReferenceLayersTest, ConvReadsZerosOutsideAndSteps) {
  Layer layer = MakeLayer(Op::kConv, 1, 1);
  layer.kernel_px = 3;
  layer.stride_px = 2;
  layer.padding_px = 1;
  layer.weights.assign(9, 1);
  layer.bias = {0};
  const Tensor src = MakeTensor({0, 0, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_THAT(Compute(layer, {src}, {0, 0, 2, 2}),
              ElementsAre(1 + 2 + 4 + 5, 2 + 3 + 5 + 6, 4 + 5 + 7 + 8, 5 + 6 + 8 + 9));
}

TEST(ReferenceLayersTest, ConvTakesWeightsOutputChannelFirst) {
  Layer layer = MakeLayer(Op::kConv, 2, 3);
  layer.weights = {1, 2, 10, 20, 100, 200};
  layer.bias = {0, 0, 0};
  const Tensor src = MakeTensor({0, 0, 1, 1}, {3, 5});
  EXPECT_THAT(Compute(layer, {src}, {0, 0, 1, 1}), ElementsAre(13, 130, 1300));
}

TEST(ReferenceLayersTest, ConvTransposeStampsAndCuts) {
  Layer layer = MakeLayer(Op::kConvTranspose, 1, 1);
  layer.kernel_px = 3;
  layer.stride_px = 2;
  layer.padding_px = 1;
  // Along x a stamp of 1, 10, 100; along y only its middle row.
  layer.weights = {0, 0, 0, 1, 10, 100, 0, 0, 0};
  layer.bias = {0};
  const Tensor src = MakeTensor({0, 0, 2, 1}, {1, 2});
  // Stamped: 1, 10, 100 + 2, 20, 200; cut by one on both sides.
  EXPECT_THAT(Compute(layer, {src}, {0, 0, 3, 1}), ElementsAre(10, 102, 20));
}

TEST(ReferenceLayersTest, ConvTransposeTakesWeightsInputChannelFirst) {
  Layer layer = MakeLayer(Op::kConvTranspose, 2, 2);
  layer.weights = {1, 2, 10, 20};
  layer.bias = {0, 0};
  const Tensor src = MakeTensor({0, 0, 1, 1}, {3, 5});
  EXPECT_THAT(Compute(layer, {src}, {0, 0, 1, 1}), ElementsAre(3 + 50, 6 + 100));
}

// A value of a convolution, as its definition reads.
double Convolved(const Layer& layer, const Tensor& src, int out, int x, int y) {
  const int stride = layer.stride_px, kernel = layer.kernel_px, padding = layer.padding_px;
  const int group_in = layer.in_channels / layer.groups;
  const int first_in = out / (layer.out_channels / layer.groups) * group_in;
  const bool transposed = layer.op == Op::kConvTranspose;
  double sum = layer.bias[out];
  for (int in = 0; in < group_in; ++in) {
    for (int sy = src.region.y; sy < src.region.bottom(); ++sy) {
      for (int sx = src.region.x; sx < src.region.right(); ++sx) {
        const int ky = transposed ? y + padding - sy * stride : sy - (y * stride - padding);
        const int kx = transposed ? x + padding - sx * stride : sx - (x * stride - padding);
        if (ky < 0 || ky >= kernel || kx < 0 || kx >= kernel) continue;
        const int filter = transposed ? in * layer.out_channels + out : out * group_in + in;
        sum += double{layer.weights[(filter * kernel + ky) * kernel + kx]} *
               src.at(first_in + in, sx, sy);
      }
    }
  }
  return sum;
}

TEST(ReferenceLayersTest, ConvolutionsOfAnyRegionAreTheirDefinitions) {
  std::mt19937 random = test::FreshRandom();
  const auto any = [&random](int low, int high) { return test::RandomInt(random, low, high); };
  for (int round = 0; round < 300; ++round) {
    const int groups = any(0, 2) == 0 ? any(2, 3) : 1, kernel = any(1, 5);
    const bool transposed = groups == 1 && any(0, 1) == 1;
    const int in = groups * any(1, 4), out = groups * any(1, 4);
    const int stride = any(1, transposed ? kernel : 3), padding = any(0, kernel - 1);
    const Layer layer =
        transposed ? test::MakeConv(Op::kConvTranspose, in, out, kernel, stride, padding, random)
                   : test::MakeGroupedConv(groups, in, out, kernel, stride, padding, random);
    Tensor src({any(0, 9), any(0, 9), any(1, 40), any(1, 6)}, in);
    for (float& value : src.values) value = static_cast<float>(any(-100, 100)) / 64;
    // Around the source's rows, and beyond them.
    const auto to_dst = [&](int at) { return transposed ? at * stride : at / stride; };
    const Rect region{std::max(0, to_dst(src.region.x) - any(0, 4)),
                      std::max(0, to_dst(src.region.y) - any(0, 4)), any(1, 60), any(1, 6)};
    const std::vector<float> values = Compute(layer, {src}, region);
    size_t i = 0;
    for (int c = 0; c < out; ++c) {
      for (int y = region.y; y < region.bottom(); ++y) {
        for (int x = region.x; x < region.right(); ++x, ++i) {
          ASSERT_NEAR(values[i], Convolved(layer, src, c, x, y), 1e-5)
              << test::Describe(layer) << ", " << x << ", " << y;
        }
      }
    }
  }
}

TEST(ReferenceLayersTest, PixelShuffleSpreadsChannelsRowByRow) {
  Layer layer = MakeLayer(Op::kPixelShuffle, 4, 1);
  layer.factor = 2;
  const Tensor src = MakeTensor({0, 0, 2, 1}, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_THAT(Compute(layer, {src}, {0, 0, 4, 2}), ElementsAre(1, 3, 2, 4, 5, 7, 6, 8));
}

TEST(ReferenceLayersTest, NearestRepeats) {
  Layer layer = MakeLayer(Op::kResizeNearest, 1, 1);
  layer.factor = 3;
  const Tensor src = MakeTensor({0, 0, 2, 1}, {1, 2});
  EXPECT_THAT(Compute(layer, {src}, {1, 0, 4, 1}), ElementsAre(1, 1, 2, 2));
}

TEST(ReferenceLayersTest, BilinearHasHalfPixelCentresAndClampsAtTheEdge) {
  Layer layer = MakeLayer(Op::kResizeBilinear, 1, 1);
  layer.factor = 2;
  const Tensor src = MakeTensor({0, 0, 2, 1}, {0, 4});
  EXPECT_THAT(Compute(layer, {src}, {0, 0, 4, 2}), ElementsAre(0, 1, 3, 4, 0, 1, 3, 4));
}

TEST(ReferenceLayersTest, TwoInputs) {
  const Tensor a = MakeTensor({0, 0, 2, 1}, {1, 2}), b = MakeTensor({0, 0, 2, 1}, {10, 20});
  EXPECT_THAT(Compute(MakeLayer(Op::kAdd, 1, 1), {a, b}, {0, 0, 2, 1}), ElementsAre(11, 22));
  EXPECT_THAT(Compute(MakeLayer(Op::kMul, 1, 1), {a, b}, {1, 0, 1, 1}), ElementsAre(40));
  EXPECT_THAT(Compute(MakeLayer(Op::kConcat, 1, 2), {a, b}, {0, 0, 2, 1}),
              ElementsAre(1, 2, 10, 20));
}

TEST(ReferenceLayersTest, MulByOneValueAChannel) {
  const Tensor planes = MakeTensor({0, 0, 2, 1}, {1, 2, 3, 4});
  const Tensor factors = MakeTensor({0, 0, 1, 1}, {10, 100});
  EXPECT_THAT(Compute(MakeLayer(Op::kMul, 2, 2), {planes, factors}, {0, 0, 2, 1}),
              ElementsAre(10, 20, 300, 400));
}

TEST(ReferenceLayersTest, CropShiftsTheOrigin) {
  Layer layer = MakeLayer(Op::kCrop, 1, 1);
  layer.crop_px = 1;
  const Tensor src = MakeTensor({0, 0, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_THAT(Compute(layer, {src}, {0, 0, 1, 1}), ElementsAre(5));
}

TEST(ReferenceLayersTest, PadFillsEverySide) {
  Layer layer = MakeLayer(Op::kPad, 1, 1);
  layer.padding_px = 2;
  const Tensor src = MakeTensor({0, 0, 3, 1}, {1, 2, 3});
  const auto middle_row = [&](PadMode mode) {
    layer.pad_mode = mode;
    layer.pad_value = 9;
    return Compute(layer, {src}, {0, 2, 7, 1});
  };
  EXPECT_THAT(middle_row(PadMode::kConstant), ElementsAre(9, 9, 1, 2, 3, 9, 9));
  EXPECT_THAT(middle_row(PadMode::kReplicate), ElementsAre(1, 1, 1, 2, 3, 3, 3));
  EXPECT_THAT(middle_row(PadMode::kReflect), ElementsAre(3, 2, 1, 2, 3, 2, 1));
  EXPECT_THAT(middle_row(PadMode::kWrap), ElementsAre(2, 3, 1, 2, 3, 1, 2));
  layer.pad_mode = PadMode::kConstant;
  EXPECT_THAT(Compute(layer, {src}, {2, 1, 3, 2}), ElementsAre(9, 9, 9, 1, 2, 3));
}

TEST(ReferenceLayersTest, ReflectedTwiceWhereNarrowerThanThePadding) {
  Layer layer = MakeLayer(Op::kPad, 1, 1);
  layer.padding_px = 4;
  layer.pad_mode = PadMode::kReflect;
  const Tensor three = MakeTensor({0, 0, 3, 1}, {1, 2, 3});
  EXPECT_THAT(Compute(layer, {three}, {0, 4, 11, 1}), ElementsAre(1, 2, 3, 2, 1, 2, 3, 2, 1, 2, 3));
  const Tensor one = MakeTensor({0, 0, 1, 1}, {7});
  EXPECT_THAT(Compute(layer, {one}, {0, 0, 9, 1}), ElementsAre(7, 7, 7, 7, 7, 7, 7, 7, 7));
}

TEST(ReferenceLayersTest, AffineIsAFactorAndAnOffsetForEveryChannel) {
  Layer layer = MakeLayer(Op::kAffine, 2, 2);
  layer.weights = {2, -1};
  layer.bias = {0.5f, 1};
  const Tensor src = MakeTensor({0, 0, 2, 1}, {1, 2, 3, 4});
  EXPECT_THAT(Compute(layer, {src}, {0, 0, 2, 1}), ElementsAre(2.5f, 4.5f, -2, -3));
}

TEST(ReferenceLayersTest, SliceTakesSomeChannels) {
  Layer layer = MakeLayer(Op::kSlice, 3, 2);
  layer.first_channel = 1;
  const Tensor src = MakeTensor({0, 0, 2, 1}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(Compute(layer, {src}, {0, 0, 2, 1}), ElementsAre(3, 4, 5, 6));
}

TEST(ReferenceLayersTest, PixelNormIsOfEachPixelsChannels) {
  Layer layer = MakeLayer(Op::kPixelNorm, 2, 2);
  layer.weights = {1, 10};
  layer.bias = {0.5f, 0};
  layer.epsilon = 3;
  // The first pixel's mean is 2, its variance 1; the second's 5 and 0.
  const Tensor src = MakeTensor({0, 0, 2, 1}, {1, 5, 3, 5});
  EXPECT_THAT(Compute(layer, {src}, {0, 0, 2, 1}), ElementsAre(-0.5f + 0.5f, 0.5f, 5, 0));
  layer.centred = false;
  layer.epsilon = 11;  // mean squares are 5 and 25
  const auto rms = Compute(layer, {src}, {0, 0, 2, 1});
  EXPECT_THAT(rms, Pointwise(FloatEq(), {1 / 4.0f + 0.5f, 5 / 6.0f + 0.5f, 30 / 4.0f, 50 / 6.0f}));
}

TEST(ReferenceLayersTest, PixelNormIsOfEachShareOfAPixelsChannels) {
  Layer layer = MakeLayer(Op::kPixelNorm, 4, 4);
  layer.groups = 2;
  layer.weights = {1, 10, 1, 2};
  layer.bias = {0.5f, 0, 0, 0};
  layer.epsilon = 3;
  layer.centred = false;
  // Mean squares are 13 and 1.
  const Tensor src = MakeTensor({0, 0, 1, 1}, {1, 5, -1, 1});
  EXPECT_THAT(Compute(layer, {src}, {0, 0, 1, 1}),
              Pointwise(FloatEq(), {1 / 4.0f + 0.5f, 50 / 4.0f, -1 / 2.0f, 2 / 2.0f}));
}

TEST(ReferenceLayersTest, SamplesLieBetweenPixelsAndAtTheEdge) {
  Layer layer = MakeLayer(Op::kSample, 2, 2);
  layer.groups = 2;
  const Tensor src = MakeTensor({0, 0, 2, 2}, {1, 2, 3, 4, 10, 20, 30, 40});
  // dx of the first share and of the second, then dy of both.
  const Tensor offsets = MakeTensor({0, 0, 2, 2}, {0.5f, 0, 0, 9,    //
                                                   0, -1, 0.25f, 0,  //
                                                   0.5f, 0, -9, 0,   //
                                                   1, 1, 0, -0.75f});
  EXPECT_THAT(Compute(layer, {src, offsets}, {0, 0, 2, 2}),
              Pointwise(FloatEq(), {2.5f, 2.0f, 1.0f, 4.0f, 30.0f, 30.0f, 32.5f, 25.0f}));
}

TEST(ReferenceLayersTest, SamplesEnlargeByPlacesOfTheirOwn) {
  Layer layer = MakeLayer(Op::kSample, 1, 1);
  layer.factor = 2;
  const Tensor src = MakeTensor({0, 0, 2, 1}, {4, 8});
  // dx of the pixel's four places, row by row, then dy.
  const Tensor offsets = MakeTensor({0, 0, 2, 1}, {0, 0, 0.25f, 0, 0.5f, 0, 1, -0.5f,  //
                                                   0, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_THAT(Compute(layer, {src, offsets}, {0, 0, 4, 2}),
              Pointwise(FloatEq(), {4.0f, 5.0f, 8.0f, 8.0f, 6.0f, 8.0f, 8.0f, 6.0f}));
}

TEST(ReferenceLayersTest, PartsAreWindowsOrGrids) {
  Layer layer = MakeLayer(Op::kPartAttention, 6, 2);
  layer.weights = {1000};  // a query takes the value of the key that it is most like
  const Tensor src = MakeTensor({0, 0, 4, 1}, {1, 1,  1,  1, 0,  0,  0,  0,     // queries
                                               1, -1, -3, 3, 0,  0,  0,  0,     // keys
                                               1, 2,  3,  4, 10, 20, 30, 40});  // values
  // The second query is nothing, and takes the mean of both values.
  const auto expect = [&](const std::vector<float>& first) {
    std::vector<float> all = first;
    all.insert(all.end(), {5.5f, 11.0f, 16.5f, 22.0f});
    EXPECT_THAT(Compute(layer, {src}, {0, 0, 4, 1}), Pointwise(FloatEq(), all));
  };
  expect({1, 20, 30, 4});
  layer.factor = 2;  // pixels 0 and 2, 1 and 3
  expect({10, 2, 30, 4});
  layer.factor = 1;
  layer.window_x.window_px = 4;  // the products' sum is 0
  expect({5.5f, 11.0f, 16.5f, 22.0f});
  layer.window_x.window_px = 3;
  expect({10, 20, 30, 4});
}

TEST(ReferenceLayersTest, GridsBecomeWindowsAndBack) {
  Layer layer = MakeLayer(Op::kGridToWindows, 1, 1);
  layer.factor = 2;
  // Rows of two and columns of three in each strip.
  const Tensor src = MakeTensor({0, 0, 6, 2}, {0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15});
  const auto windows = Compute(layer, {src}, {0, 0, 6, 2});
  EXPECT_THAT(windows, ElementsAre(0, 3, 1, 4, 2, 5, 10, 13, 11, 14, 12, 15));
  layer.op = Op::kWindowsToGrid;
  EXPECT_THAT(Compute(layer, {MakeTensor({0, 0, 6, 2}, windows)}, {0, 0, 6, 2}),
              ElementsAreArray(src.values));
}

TEST(ReferenceLayersTest, MaxPoolIsOfThePixelsThatAreThere) {
  Layer layer = MakeLayer(Op::kMaxPool, 1, 1);
  layer.kernel_px = 2;
  layer.stride_px = 3;
  const Tensor src = MakeTensor({0, 0, 5, 1}, {-5, -4, 9, -3, -7});
  EXPECT_THAT(Compute(layer, {src}, {0, 0, 2, 1}), ElementsAre(-4, -3));
}

TEST(ReferenceLayersTest, TheSecondInputIsResizedAndAdded) {
  const Layer layer = MakeLayer(Op::kAddResized, 1, 1);
  const Tensor first = MakeTensor({0, 0, 5, 1}, {0, 10, 20, 30, 40});
  const Tensor second = MakeTensor({0, 0, 2, 1}, {1, 2});
  // The places are -0.3, 0.1, 0.5, 0.9 and 1.3.
  EXPECT_THAT(Compute(layer, {first, second}, {0, 0, 5, 1}),
              Pointwise(FloatEq(), {1.0f, 11.1f, 21.5f, 31.9f, 42.0f}));
}

TEST(ReferenceLayersTest, GroupNormTakesTheMomentsOfItsChannels) {
  Layer layer = MakeLayer(Op::kGroupNorm, 4, 4);
  layer.groups = 2;
  layer.weights = {1, 10, 1, 2};
  layer.bias = {0, 0, 0.5f, 0};
  layer.epsilon = 3;
  const Tensor src = MakeTensor({0, 0, 1, 1}, {3, 5, -1, 2});
  // The first group's mean is 3, its mean square 10; the second's 0 and 6.
  const Tensor moments = MakeTensor({0, 0, 1, 1}, {2, 4, -1, 1, 6, 14, 7, 5});
  EXPECT_THAT(Compute(layer, {src, moments}, {0, 0, 1, 1}),
              Pointwise(FloatEq(), {0.0f, 10.0f, -1 / 3.0f + 0.5f, 4 / 3.0f}));
}

// Rolls the image left and up by `shift` pixels and masks pixels on different sides of the seam, as
// Swin's code does.
std::vector<double> RollAndMask(const Layer& layer, int shift, const Tensor& src) {
  const int side = layer.window_x.window_px, channels = layer.out_channels;
  const int width = src.region.width, height = src.region.height, depth = channels / layer.groups;
  const auto part = [&](int at, int size) {  // of the rolled image
    return at < size - side ? 0 : at < size - shift ? 1 : 2;
  };
  std::vector<double> result(src.values.size() / 3);
  for (int head = 0; head < layer.groups; ++head) {
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        double sum = 0;
        std::vector<double> values(depth);
        const int query = y % side * side + x % side;
        for (int key = 0; key < side * side; ++key) {
          const int ty = y - y % side + key / side, tx = x - x % side + key % side;
          const bool masked = shift > 0 && (part(y, height) != part(ty, height) ||
                                            part(x, width) != part(tx, width));
          const auto at = [&](int c, int px, int py) {
            return double{src.at(c, (px + shift) % width, (py + shift) % height)};
          };
          double score = layer.weights[(head * side * side + query) * side * side + key];
          for (int c = head * depth; c < (head + 1) * depth; ++c) {
            score += at(c, x, y) * at(channels + c, tx, ty);
          }
          const double weight = std::exp(score - (masked ? 100 : 0));
          sum += weight;
          for (int c = 0; c < depth; ++c) {
            values[c] += weight * at(2 * channels + head * depth + c, tx, ty);
          }
        }
        for (int c = 0; c < depth; ++c) {
          const int to_x = (x + shift) % width, to_y = (y + shift) % height;
          result[((head * depth + c) * height + to_y) * width + to_x] = values[c] / sum;
        }
      }
    }
  }
  return result;
}

TEST(ReferenceLayersTest, WindowsCutOffAtTheEdgeAreARolledAndMaskedImage) {
  std::mt19937 random = test::FreshRandom();
  std::normal_distribution<float> normal;
  for (const int rolled_px : {0, 1, 2, 3}) {
    Layer layer = MakeLayer(Op::kWindowAttention, 18, 6);
    layer.groups = 2;
    layer.window_x = layer.window_y = {4, (4 - rolled_px) % 4};
    layer.weights.resize(2 * 16 * 16);
    for (float& bias : layer.weights) bias = normal(random);
    Tensor src({0, 0, 12, 8}, 18);
    for (float& value : src.values) value = normal(random);
    const std::vector<float> result = Compute(layer, {src}, src.region);
    const std::vector<double> expected = RollAndMask(layer, rolled_px, src);
    for (size_t i = 0; i < result.size(); ++i) ASSERT_NEAR(result[i], expected[i], 1e-5) << i;
  }
}

TEST(ReferenceLayersTest, FullyConnected) {
  Layer layer = MakeLayer(Op::kFullyConnected, 2, 2);
  layer.weights = {1, 2, 10, 20};
  layer.bias = {0.5f, 0};
  const Tensor vector = MakeTensor({0, 0, 1, 1}, {3, 5});
  EXPECT_THAT(Compute(layer, {vector}, {0, 0, 1, 1}), ElementsAre(13.5f, 130));
}

TEST(ReferenceLayersTest, Activations) {
  const Tensor src = MakeTensor({0, 0, 2, 1}, {-2, 3, -4, 5});
  const auto activate = [&](Activation activation, std::vector<float> slope) {
    Layer layer = MakeLayer(Op::kActivation, 2, 2);
    layer.activation = activation;
    layer.slope = std::move(slope);
    layer.clip_min = -3;
    layer.clip_max = 4;
    return Compute(layer, {src}, {0, 0, 2, 1});
  };
  EXPECT_THAT(activate(Activation::kNone, {}), ElementsAre(-2, 3, -4, 5));
  EXPECT_THAT(activate(Activation::kRelu, {}), ElementsAre(0, 3, 0, 5));
  EXPECT_THAT(activate(Activation::kLeakyRelu, {0.5f}), ElementsAre(-1, 3, -2, 5));
  EXPECT_THAT(activate(Activation::kPRelu, {0.5f, 0.25f}), ElementsAre(-1, 3, -1, 5));
  EXPECT_THAT(activate(Activation::kClip, {}), ElementsAre(-2, 3, -3, 4));
  const auto sigmoid = [](float v) { return 1 / (1 + std::exp(-v)); };
  EXPECT_THAT(activate(Activation::kSigmoid, {}),
              Pointwise(FloatEq(), {sigmoid(-2), sigmoid(3), sigmoid(-4), sigmoid(5)}));
  // As PyTorch gives them for doubles.
  EXPECT_THAT(activate(Activation::kSilu, {}),
              Pointwise(FloatEq(), {-0.238405844f, 2.85772238f, -0.0719448398f, 4.96653575f}));
  EXPECT_THAT(activate(Activation::kMish, {}),
              Pointwise(FloatEq(), {-0.252501483f, 2.986535f, -0.0725917408f, 4.99955208f}));
  EXPECT_THAT(activate(Activation::kGelu, {}),
              Pointwise(FloatEq(), {-0.0455002639f, 2.99595031f, -0.000126684967f, 4.99999857f}));
  EXPECT_THAT(activate(Activation::kGeluTanh, {}),
              Pointwise(FloatEq(), {-0.0454023059f, 2.99636261f, -7.02459482e-05f, 4.99999977f}));
  EXPECT_THAT(activate(Activation::kSoftplus, {}),
              Pointwise(FloatEq(), {0.126928011f, 3.04858735f, 0.0181499279f, 5.00671535f}));
}

Network PoolingNetwork() {
  Network network = test::InputAlone();
  test::AppendTimesMean(network, 0);
  return network;
}

TEST(ReferenceBackendTest, TilesGatherTheMeansOfTheWholeImage) {
  const auto backend = CreateReferenceBackend({});
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto executable = (*backend)->Compile(PoolingNetwork(), Precision::kExact);
  ASSERT_TRUE(executable.ok()) << executable.status();
  // One row of three pixels with the means 2, 4 and 0.25, the middle one a tile of its own.
  Image source({3, 1, 3, SampleType::kF32}), result(source.spec());
  const float pixels[] = {1, 3, 0.5f, 2, 4, 0.25f, 3, 5, 0};
  std::copy_n(pixels, 9, source.mutable_view().row_as<float>(0));
  std::vector<TileTask> tiles;
  for (const Rect& tile : {Rect{0, 0, 1, 1}, Rect{1, 0, 1, 1}, Rect{2, 0, 1, 1}}) {
    tiles.push_back(test::MakeTask(**executable, source, tile, result));
  }
  const absl::Status status = test::RunImage(*(*backend)->CreateStream(), **executable, tiles);
  ASSERT_TRUE(status.ok()) << status;
  const float* values = result.view().row_as<float>(0);
  EXPECT_THAT(std::vector<float>(values, values + 9),
              ElementsAre(2, 12, 0.125f, 4, 16, 0.0625f, 6, 20, 0));
}

TEST(ReferenceBackendTest, RefusesWhatItCannotDo) {
  const auto backend = CreateReferenceBackend({});
  ASSERT_TRUE(backend.ok()) << backend.status();
  const absl::Status fast = (*backend)->Compile(PoolingNetwork(), Precision::kFast).status();
  EXPECT_EQ(fast.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(fast.message()), HasSubstr("no precision 'fast'"));
}

TEST(ReferenceBackendTest, RefusesOptionsThatAreNotItsOwn) {
  const auto isa = CreateReferenceBackend({.cpu_isa = "avx2"});
  EXPECT_EQ(isa.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(isa.status().message()), HasSubstr("no cpu_isa 'avx2'"));
  const auto kernel = CreateReferenceBackend({.kernel = "winograd"});
  EXPECT_EQ(kernel.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(kernel.status().message()), HasSubstr("no kernel 'winograd'"));
  const auto threads = CreateReferenceBackend({.threads = -1});
  EXPECT_EQ(threads.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(threads.status().message()), HasSubstr("threads is -1"));
  EXPECT_EQ((*CreateReferenceBackend({.threads = 3}))->StreamCount(), 3);
}

}  // namespace
}  // namespace upscaled
