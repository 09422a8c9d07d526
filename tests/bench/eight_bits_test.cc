#include "tests/bench/eight_bits.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/test_image.h"

namespace upscaled::bench {
namespace {

Network OneByOne(const std::vector<float>& weights) {
  Network network;
  network.layers.push_back({.op = Op::kInput, .name = "input", .out_channels = 3});
  network.layers.push_back({.op = Op::kConv,
                            .name = "conv",
                            .inputs = {0},
                            .out_channels = 3,
                            .in_channels = 3,
                            .weights = weights,
                            .bias = {0, 0, 0}});
  return network;
}

Image NoiseWithBlackAndWhite(std::mt19937& random) {
  Image image = test::RandomImage({9, 7, 3, SampleType::kU8}, random);
  image.mutable_view().row(0)[0] = 0;
  image.mutable_view().row(0)[1] = 255;
  return image;
}

TEST(EightBitsTest, KeepsWhatTheyHold) {
  std::mt19937 random = test::FreshRandom();
  const Image source = NoiseWithBlackAndWhite(random);
  const Network network = OneByOne({1, 0, 0, 0, 1, 0, 0, 0, 1});
  EXPECT_TRUE(test::SameImages(RunInEightBits(network, source.view()).view(), source.view()));
}

// A weight of half a step next to one of 127.
TEST(EightBitsTest, RoundsWeightsByOutput) {
  std::mt19937 random = test::FreshRandom();
  const Image source = NoiseWithBlackAndWhite(random);
  const float little = 0.49f / 127;
  const Network network = OneByOne({1, little, little, 0, 1, 0, 0, 0, 1});
  EXPECT_TRUE(test::SameImages(RunInEightBits(network, source.view()).view(), source.view()));
}

// A range of four times the samples' leaves a quarter of the levels.
TEST(EightBitsTest, RoundsWhatLayersRead) {
  Network network = OneByOne({4, 0, 0, 0, 1, 0, 0, 0, 1});
  Layer second = network.layers.back();
  second.inputs = {1};
  second.weights = {0.25f, 0, 0, 0, 1, 0, 0, 0, 1};
  network.layers.push_back(second);
  Image source({2, 1, 3, SampleType::kU8});
  const uint8_t samples[] = {255, 103, 0, 0, 101, 3};
  std::copy_n(samples, 6, source.mutable_view().data);
  const Image result = RunInEightBits(network, source.view());
  const uint8_t expected[] = {255, 104, 0, 0, 100, 4};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(result.view().data[i], expected[i]) << i;
}

}  // namespace
}  // namespace upscaled::bench
