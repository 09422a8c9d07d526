#include "engine/graph/tile_geometry.h"

#include <random>
#include <span>
#include <vector>

#include "engine/backends/reference/layers.h"
#include "engine/backends/reference/tensor.h"
#include "engine/graph/tile_plan.h"
#include "engine/model/shapes.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/random_network.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using reference::Tensor;
using test::Describe;
using test::FreshRandom;
using test::RandomInt;

Layer MakeConv(Op op, int kernel_px, int stride_px, int padding_px) {
  Layer layer{.op = op, .name = "conv", .inputs = {0}, .out_channels = 3, .in_channels = 3};
  layer.kernel_px = kernel_px;
  layer.stride_px = stride_px;
  layer.padding_px = padding_px;
  layer.weights.assign(9 * kernel_px * kernel_px, 0.1f);
  layer.bias.assign(3, 0.0f);
  return layer;
}

Network OneLayer(Layer layer, int scale, int pad_px) {
  Network network;
  network.layers = {{.op = Op::kInput, .name = "input", .out_channels = 3}, std::move(layer)};
  network.scale = scale;
  network.pad_px = pad_px;
  return network;
}

// How many positions a kernel fits in, counted.
int CountConvOutputs(int side, const Layer& layer) {
  int count = 0;
  for (int start = -layer.padding_px; start + layer.kernel_px <= side + layer.padding_px;
       start += layer.stride_px) {
    ++count;
  }
  return count;
}

// How far the stamps of a transposed convolution reach, less what is cut.
int CountTransposedOutputs(int side, const Layer& layer) {
  int end = 0;
  for (int i = 0; i < side; ++i) end = i * layer.stride_px + layer.kernel_px;
  return end - 2 * layer.padding_px;
}

TEST(LayerSizesTest, ConvolutionsCountedByHand) {
  std::mt19937 random = FreshRandom();
  for (int i = 0; i < 500; ++i) {
    const Op op = RandomInt(random, 0, 1) == 0 ? Op::kConv : Op::kConvTranspose;
    const int kernel_px = RandomInt(random, 1, 5);
    const int stride_px = RandomInt(random, 1, op == Op::kConv ? 3 : kernel_px);
    const Layer layer = MakeConv(op, kernel_px, stride_px, RandomInt(random, 0, kernel_px - 1));
    const Size size{RandomInt(random, 8, 40), RandomInt(random, 8, 40)};
    const auto count = op == Op::kConv ? CountConvOutputs : CountTransposedOutputs;
    const Size expected{count(size.width, layer), count(size.height, layer)};
    EXPECT_EQ(LayerSizes(OneLayer(layer, 1, 0), size).back(), expected)
        << OpName(op) << " kernel " << kernel_px << " stride " << stride_px << " padding "
        << layer.padding_px << " of " << size.width << "x" << size.height;
  }
}

TEST(LayerSizesTest, PaddedInputIsAligned) {
  Network network = OneLayer({.op = Op::kActivation, .inputs = {0}}, 1, 18);
  network.align_px = 4;
  EXPECT_EQ(PaddedSize(network, {1, 5}), (Size{40, 44}));
  EXPECT_EQ(PaddedSize(network, {4, 4}), (Size{40, 40}));
}

TEST(LayerSizesTest, ResultOfAnyImageIsScaleTimesAsLarge) {
  std::mt19937 random = FreshRandom();
  for (int i = 0; i < 50; ++i) {
    const Network network = test::RandomNetwork(random);
    const Size image{RandomInt(random, 1, 300), RandomInt(random, 1, 300)};
    const Size result = LayerSizes(network, image).back();
    EXPECT_GE(result.width, network.scale * image.width) << Describe(network);
    EXPECT_LT(result.width, network.scale * (image.width + network.align_px)) << Describe(network);
    EXPECT_GE(result.height, network.scale * image.height) << Describe(network);
  }
}

TEST(TilePlanTest, ValidConvolutionReadsItsHalo) {
  const Network network = OneLayer(MakeConv(Op::kConv, 3, 1, 0), 1, 1);
  const auto regions = PlanTile(network, {10, 8}, {2, 3, 4, 2}).regions;
  EXPECT_EQ(regions[1], (Rect{2, 3, 4, 2}));
  EXPECT_EQ(regions[0], (Rect{2, 3, 6, 4}));
}

TEST(TilePlanTest, ZeroPaddingIsClippedToTheImage) {
  const Network network = OneLayer(MakeConv(Op::kConv, 3, 1, 1), 1, 0);
  const auto regions = PlanTile(network, {10, 8}, {0, 6, 4, 2}).regions;
  EXPECT_EQ(regions[0], (Rect{0, 5, 5, 3}));
}

TEST(TilePlanTest, UpconvReadsTheStampsThatReachTheTile) {
  const Network network = OneLayer(MakeConv(Op::kConvTranspose, 4, 2, 3), 2, 1);
  // Result pixel 0 lies at stamp offset 3: pixels 0 and 1 of the padded input reach it.
  const auto regions = PlanTile(network, {10, 8}, {0, 0, 1, 1}).regions;
  EXPECT_EQ(regions[1], (Rect{0, 0, 2, 2}));
  EXPECT_EQ(regions[0], (Rect{0, 0, 3, 3}));
}

TEST(TilePlanTest, AttentionReadsWholeWindowsOfItsLattice) {
  Layer layer{.op = Op::kWindowAttention, .window_x = {6, 2}, .window_y = {6, 2}};
  const Size size{20, 18};
  EXPECT_EQ(InputRegion(layer, {4, 9, 1, 2}, size, 0), (Rect{4, 4, 6, 12}));
  EXPECT_EQ(InputRegion(layer, {0, 3, 5, 1}, size, 0), (Rect{0, 0, 10, 4}));
  EXPECT_EQ(InputRegion(layer, {19, 17, 1, 1}, size, 0), (Rect{16, 16, 4, 2}));
  layer.window_y = {9, 0};
  layer.overlap_px = 1;
  EXPECT_EQ(InputRegion(layer, {4, 9, 1, 2}, size, 0), (Rect{3, 8, 8, 10}));
}

TEST(TilePlanTest, BlocksRoundOutwardFromTheOrigin) {
  const Network network = OneLayer(MakeConv(Op::kConv, 3, 1, 0), 1, 1);
  const int blocks[] = {1, 6};
  const auto regions = PlanTile(network, {20, 8}, {7, 3, 2, 4}, blocks).regions;
  EXPECT_EQ(regions[1], (Rect{6, 0, 6, 8}));
  EXPECT_EQ(regions[0], (Rect{6, 0, 8, 10}));
}

TEST(TilePlanTest, BlocksMayBeginElsewhere) {
  const Network network = OneLayer(MakeConv(Op::kConv, 3, 1, 1), 1, 0);
  const int blocks[] = {1, 6};
  const BlockOrigin origins[] = {{}, {.x_px = 3, .y_px = 1}};
  const auto regions = PlanTile(network, {20, 18}, {7, 2, 2, 2}, blocks, origins).regions;
  EXPECT_EQ(regions[1], (Rect{3, 1, 6, 6}));
  EXPECT_EQ(regions[0], (Rect{2, 0, 8, 8}));
}

TEST(SourceRectTest, BorderCountsAsTheEdgeItCopies) {
  const Network network = OneLayer(MakeConv(Op::kConv, 3, 1, 0), 1, 7);
  const Size image{10, 8};
  EXPECT_EQ(SourceRect(network, {0, 0, 24, 22}, image), (Rect{0, 0, 10, 8}));
  EXPECT_EQ(SourceRect(network, {0, 0, 3, 3}, image), (Rect{0, 0, 1, 1}));
  EXPECT_EQ(SourceRect(network, {20, 9, 4, 2}, image), (Rect{9, 2, 1, 2}));
}

// All layers, each computed only in its region, from random values of layer 0.
std::vector<Tensor> Compute(const Network& network, Size image, const std::vector<Rect>& regions,
                            const Tensor& whole_input) {
  const std::vector<Size> sizes = LayerSizes(network, image);
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < network.layers.size(); ++i) {
    const Layer& layer = network.layers[i];
    Tensor& dst = tensors.emplace_back(regions[i], layer.out_channels, sizes[i]);
    if (layer.op == Op::kInput) {
      for (int c = 0; c < dst.channels; ++c) {
        for (int y = dst.region.y; y < dst.region.bottom(); ++y) {
          for (int x = dst.region.x; x < dst.region.right(); ++x) {
            dst.row(c, y)[x - dst.region.x] = whole_input.at(c, x, y);
          }
        }
      }
      continue;
    }
    std::vector<const Tensor*> inputs;
    for (const int input : layer.inputs) inputs.push_back(&tensors[input]);
    reference::ComputeLayer(layer, inputs, dst);
  }
  return tensors;
}

void ExpectPartOf(const Tensor& part, const Tensor& whole) {
  for (int c = 0; c < part.channels; ++c) {
    for (int y = part.region.y; y < part.region.bottom(); ++y) {
      for (int x = part.region.x; x < part.region.right(); ++x) {
        ASSERT_EQ(part.at(c, x, y), whole.at(c, x, y)) << "at " << c << ", " << x << ", " << y;
      }
    }
  }
}

TEST(TilePlanTest, RegionsSufficeForRandomNetworksTilesAndBlocks) {
  std::mt19937 random = FreshRandom();
  for (int i = 0; i < 80; ++i) {
    const Network network =
        i % 4 == 3 ? test::RandomAttentionNetwork(random) : test::RandomNetwork(random);
    SCOPED_TRACE(Describe(network));
    const Size image{RandomInt(random, 1, 24), RandomInt(random, 1, 24)};
    std::vector<Rect> whole;
    for (const Size size : LayerSizes(network, image))
      whole.push_back({0, 0, size.width, size.height});
    Tensor input(whole[0], 3);
    std::uniform_real_distribution<float> uniform(0, 1);
    for (float& v : input.values) v = uniform(random);

    const int x = RandomInt(random, 0, image.width - 1), y = RandomInt(random, 0, image.height - 1);
    const Rect tile{x, y, RandomInt(random, 1, image.width - x),
                    RandomInt(random, 1, image.height - y)};
    std::vector<int> blocks;
    std::vector<BlockOrigin> origins;
    for (size_t l = 0; l < network.layers.size(); ++l) {
      blocks.push_back(RandomInt(random, 1, 7));
      const auto origin = [&] { return RandomInt(random, 0, blocks.back() - 1); };
      origins.push_back({.x_px = origin(), .y_px = origin()});
    }
    const std::vector<Rect> regions = PlanTile(network, image, tile, blocks, origins).regions;

    EXPECT_TRUE(regions.back().Contains(Scale(tile, network.scale)));
    const std::vector<Tensor> parts = Compute(network, image, regions, input);
    const std::vector<Tensor> wholes = Compute(network, image, whole, input);
    for (size_t l = 0; l < parts.size(); ++l) {
      SCOPED_TRACE(l);
      EXPECT_TRUE(whole[l].Contains(regions[l]));
      ExpectPartOf(parts[l], wholes[l]);
    }
  }
}

TEST(TilePlanTest, GlobalPoolingNeedsTheTilesShareOfItsInput) {
  Network network = OneLayer(MakeConv(Op::kConv, 3, 2, 1), 1, 0);
  test::AppendTimesMean(network, 0);
  const auto regions = PlanTile(network, {10, 8}, {4, 4, 2, 2}).regions;
  EXPECT_EQ(regions[3], (Rect{4, 4, 2, 2}));
  EXPECT_EQ(regions[2], (Rect{0, 0, 1, 1}));
  EXPECT_EQ(regions[1], (Rect{2, 2, 1, 1}));
  EXPECT_EQ(regions[0], (Rect{3, 3, 3, 3}));
}

}  // namespace
}  // namespace upscaled
