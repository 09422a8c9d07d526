// Collapsible blocks: their folded kernels, and their derivatives.
#include "engine/train/collapsible.h"

#include <initializer_list>
#include <numeric>
#include <random>

#include "engine/train/gradient_check.h"
#include "engine/train/parameters.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/test_image.h"

namespace upscaled::train {
namespace {

using ::testing::FloatNear;
using ::testing::Pointwise;

struct PReluConv {
  int in, out, kernel_px;
};

// Convolutions with PReLUs.
Network NetworkOf(std::initializer_list<PReluConv> convs, std::mt19937_64& random) {
  Network network;
  network.layers.push_back({.op = Op::kInput, .name = "in", .out_channels = convs.begin()->in});
  std::uniform_real_distribution<float> number(-0.5f, 0.5f);
  for (const auto& [in, out, kernel_px] : convs) {
    Layer layer{.op = Op::kConv,
                .name = "conv",
                .out_channels = out,
                .in_channels = in,
                .kernel_px = kernel_px,
                .activation = Activation::kPRelu};
    layer.weights.resize(size_t{1} * in * out * kernel_px * kernel_px);
    layer.bias.resize(out);
    layer.slope.resize(out);
    for (auto* values : {&layer.weights, &layer.bias, &layer.slope}) {
      for (float& value : *values) value = number(random);
    }
    network.layers.push_back(std::move(layer));
  }
  return network;
}

class CollapsibleTest : public ::testing::Test {
 protected:
  std::mt19937_64 random_{test::FreshRandom()()};
  // Between two blocks there are a convolution of 1x1 and slopes.
  const Network network_ = NetworkOf({{3, 5, 3}, {5, 4, 1}, {4, 6, 3}}, random_);
  const std::vector<float> read_ = ReadParameters(network_);
  const std::vector<double> start_{read_.begin(), read_.end()};
  const CollapsibleBlocks<double> blocks_{network_, 3};
};

TEST_F(CollapsibleTest, BeginsAsTheNetwork) {
  const std::vector<double> expanded = blocks_.Expand(start_, 1);
  EXPECT_EQ(expanded.size(),
            start_.size() + (5 * 3 + 5 * 15 + 9 * 15 * 3) + (6 * 4 + 6 * 18 + 9 * 18 * 4));
  EXPECT_EQ(blocks_.Fold(expanded), start_);
  EXPECT_NE(blocks_.Expand(start_, 2), expanded);
  const CollapsibleBlocks<double> none(network_, 0);
  EXPECT_EQ(none.Expand(start_, 1), start_);
  EXPECT_EQ(none.Gradient(start_, start_), start_);
}

// The sum of 3x3 to more channels and 1x1, one after the other, and of 1x1 and 3x3.
TEST_F(CollapsibleTest, FoldsBranchesIntoOneKernel) {
  std::vector<double> expanded = blocks_.Expand(start_, 1);
  std::uniform_real_distribution<double> number(-1, 1);
  for (double& value : expanded) value = number(random_);
  const std::vector<double> folded = blocks_.Fold(expanded);
  const size_t narrow = start_.size(), last = narrow + 5 * 3, wide = last + 5 * 15;
  for (int tap = 0; tap < 9; ++tap) {
    for (int o = 0; o < 5; ++o) {
      for (int i = 0; i < 3; ++i) {
        double sum = expanded[(tap * 5 + o) * 3 + i];
        if (tap == 4) sum += expanded[narrow + o * 3 + i];
        for (int w = 0; w < 15; ++w) {
          sum += expanded[last + o * 15 + w] * expanded[wide + (tap * 15 + w) * 3 + i];
        }
        ASSERT_NEAR(folded[(tap * 5 + o) * 3 + i], sum, 1e-12);
      }
    }
  }
  EXPECT_EQ(folded[9 * 5 * 3], expanded[9 * 5 * 3]) << "the bias, which has no branches";
}

TEST_F(CollapsibleTest, DerivativesAreCentralDifferences) {
  std::vector<double> expanded = blocks_.Expand(start_, 1), by_folded(start_.size());
  std::uniform_real_distribution<double> number(-1, 1);
  for (auto* values : {&expanded, &by_folded}) {
    for (double& value : *values) value = number(random_);
  }
  const auto loss = [&] {
    const std::vector<double> folded = blocks_.Fold(expanded);
    return std::inner_product(folded.begin(), folded.end(), by_folded.begin(), 0.0);
  };
  const std::vector<double> gradient = blocks_.Gradient(expanded, by_folded);
  std::vector<size_t> places(expanded.size());
  std::iota(places.begin(), places.end(), size_t{0});
  EXPECT_LE(DerivativeError(loss, expanded, places, gradient, {.count = 300}, random_),
            kMaxStepError);
}

// Sizes that products divide into several tiles, unevenly.
TEST_F(CollapsibleTest, FloatsAgreeWithDoubles) {
  const Network network = NetworkOf({{3, 48, 3}, {48, 37, 3}, {37, 12, 3}}, random_);
  const CollapsibleBlocks<float> floats(network, 4);
  const CollapsibleBlocks<double> doubles(network, 4);
  std::vector<float> expanded = floats.Expand(ReadParameters(network), 1);
  std::vector<float> by_folded(ReadParameters(network).size());
  std::uniform_real_distribution<float> number(-1, 1);
  for (auto* values : {&expanded, &by_folded}) {
    for (float& value : *values) value = number(random_);
  }
  const std::vector<double> exact(expanded.begin(), expanded.end());
  const std::vector<double> by_exact(by_folded.begin(), by_folded.end());
  EXPECT_THAT(floats.Fold(expanded), Pointwise(FloatNear(1e-4f), doubles.Fold(exact)));
  EXPECT_THAT(floats.Gradient(expanded, by_folded),
              Pointwise(FloatNear(1e-4f), doubles.Gradient(exact, by_exact)));
}

}  // namespace
}  // namespace upscaled::train
