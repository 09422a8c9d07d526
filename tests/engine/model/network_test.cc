#include "engine/model/network.h"

#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "engine/model/border.h"
#include "engine/model/limits.h"
#include "engine/model/shapes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace upscaled {
namespace {

using ::testing::HasSubstr;

Layer Conv(int input, int in, int out, int kernel_px) {
  Layer layer{.op = Op::kConv,
              .name = "conv",
              .inputs = {input},
              .out_channels = out,
              .in_channels = in,
              .kernel_px = kernel_px};
  layer.weights.assign(size_t{1} * in * out * kernel_px * kernel_px, 0.5f);
  layer.bias.assign(out, 0.0f);
  return layer;
}

// A group norm of layer 0, by layer 1.
Layer NormOfThree() {
  return {.op = Op::kGroupNorm,
          .name = "norm",
          .inputs = {0, 1},
          .out_channels = 3,
          .in_channels = 3,
          .weights = {1, 1, 1},
          .bias = {0, 0, 0}};
}

// 3x3 to 12 channels, then a pixel shuffle: scale 2, pad 1.
Network SmallNetwork() {
  Network network;
  network.layers = {{.op = Op::kInput, .name = "input", .out_channels = 3},
                    Conv(0, 3, 12, 3),
                    {.op = Op::kPixelShuffle,
                     .name = "shuffle",
                     .inputs = {1},
                     .out_channels = 3,
                     .in_channels = 12,
                     .factor = 2}};
  network.scale = 2;
  network.pad_px = 1;
  return network;
}

TEST(NetworkTest, CountsWeightsAndMacs) {
  const Network network = SmallNetwork();
  EXPECT_TRUE(network.Validate().ok()) << network.Validate();
  EXPECT_EQ(network.WeightCount(), 12 * 3 * 9 + 12);
  EXPECT_DOUBLE_EQ(network.MacsPerOutputPixel(), 12 * 3 * 9 / 4.0);
}

TEST(NetworkTest, MacsOfATransposedConvolutionAreThoseOfItsInput) {
  Network network = SmallNetwork();
  network.layers.pop_back();
  network.layers[1].op = Op::kConvTranspose;
  network.layers[1].kernel_px = 2;
  network.layers[1].stride_px = 2;
  network.layers[1].out_channels = 3;
  network.layers[1].weights.resize(3 * 3 * 4);
  network.layers[1].bias.resize(3);
  network.pad_px = 0;
  EXPECT_TRUE(network.Validate().ok()) << network.Validate();
  EXPECT_DOUBLE_EQ(network.MacsPerOutputPixel(), 3 * 3);  // each result pixel has one stamp
}

struct Defect {
  const char* name;
  std::function<void(Network&)> make;
  const char* message;
};

class ValidateTest : public ::testing::TestWithParam<Defect> {};

TEST_P(ValidateTest, NamesWhatIsWrong) {
  Network network = SmallNetwork();
  GetParam().make(network);
  const absl::Status status = network.Validate();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
}

const Defect kDefects[] = {
    {"NoLayers", [](Network& n) { n.layers.clear(); }, "network has 0 layers, outside 1..4096"},
    {"TwoInputs", [](Network& n) { n.layers[1] = n.layers[0]; },
     "layer 1 'input' (input): the first layer, and no other, must be the input"},
    {"Channels", [](Network& n) { n.layers[1].in_channels = 4; },
     "layer 1 'conv' (conv): takes 4 channels, its input has 3"},
    {"LaterInput", [](Network& n) { n.layers[1].inputs = {2}; },
     "reads layer 2, which is no earlier"},
    {"NegativeInput", [](Network& n) { n.layers[1].inputs = {-1}; }, "reads layer -1"},
    {"MissingInput", [](Network& n) { n.layers[1].inputs = {}; }, "has 0 inputs, must have 1..1"},
    {"Kernel", [](Network& n) { n.layers[1].kernel_px = 32; }, "kernel_px is 32, outside 1..31"},
    {"Stride", [](Network& n) { n.layers[1].stride_px = 0; }, "stride_px is 0, outside 1..16"},
    {"Padding", [](Network& n) { n.layers[1].padding_px = 3; }, "padding_px is 3, outside 0..2"},
    {"Factor", [](Network& n) { n.layers[2].factor = 0; }, "factor is 0, outside 1..16"},
    {"Shuffle", [](Network& n) { n.layers[2].factor = 3; }, "gives 3 channels, must give 1"},
    {"SliceBehindTheLast",
     [](Network& n) {
       n.layers[2].op = Op::kSlice;
       n.layers[2].first_channel = 10;
     },
     "layer 2 'shuffle' (slice): takes the channels 10..12 of 12"},
    {"SliceBefore",
     [](Network& n) {
       n.layers[2].op = Op::kSlice;
       n.layers[2].first_channel = -1;
     },
     "first_channel is -1, outside 0..8191"},
    {"Window",
     [](Network& n) {
       n.layers[2].op = Op::kWindowAttention;
       n.layers[2].window_y = {.window_px = 33};
     },
     "layer 2 'shuffle' (window attention): window_px is 33, outside 1..32"},
    {"Shift",
     [](Network& n) {
       n.layers[2].op = Op::kWindowAttention;
       n.layers[2].window_x = {.window_px = 4, .shift_px = 4};
     },
     "shift_px is 4, outside 0..3"},
    {"Overlap",
     [](Network& n) {
       n.layers[2].op = Op::kWindowAttention;
       n.layers[2].overlap_px = 33;
     },
     "overlap_px is 33, outside 0..32"},
    {"PaddedWindows",
     [](Network& n) {
       n.layers[2].op = Op::kWindowAttention;
       n.layers[2].factor = 33;
     },
     "factor is 33, outside 1..32"},
    {"ProductsOfHeads",
     [](Network& n) {
       n.layers[2].op = Op::kChannelProducts;
       n.layers[2].groups = 3;
     },
     "layer 2 'shuffle' (channel products): gives 3 channels, must give"},
    {"ProductsOfHeadsThatDoNotFit",
     [](Network& n) {
       n.layers[2].op = Op::kChannelProducts;
       n.layers[2].groups = 0;
     },
     "groups is 0, outside 1..8192"},
    {"Heads",
     [](Network& n) {
       n.layers[2].op = Op::kWindowAttention;
       n.layers[2].groups = 5;
       n.layers[2].out_channels = 4;
     },
     "cannot share 12 channels among the queries, keys and values of 5 heads"},
    {"Epsilon",
     [](Network& n) {
       n.layers[2].op = Op::kPixelNorm;
       n.layers[2].epsilon = 0;
     },
     "epsilon is 0, must be above 0"},
    {"MomentsOfFewer",
     [](Network& n) {
       n.layers = {n.layers[0],
                   {.op = Op::kGlobalAveragePool,
                    .name = "pool",
                    .inputs = {0},
                    .out_channels = 3,
                    .in_channels = 3},
                   NormOfThree()};
     },
     "layer 2 'norm' (group norm): takes 6 means over the image, is given 3 values"},
    {"MomentsOfPixels",
     [](Network& n) {
       n.layers = {n.layers[0],
                   {.op = Op::kConcat,
                    .name = "twice",
                    .inputs = {0, 0},
                    .out_channels = 6,
                    .in_channels = 3},
                   NormOfThree()};
     },
     "takes 6 means over the image, is given 6 values per pixel"},
    {"Weights", [](Network& n) { n.layers[1].weights.pop_back(); },
     "has 323 weights, must have 324"},
    {"Bias", [](Network& n) { n.layers[1].bias.clear(); }, "has 0 bias values, must have 12"},
    {"Slope", [](Network& n) { n.layers[1].activation = Activation::kPRelu; },
     "has 0 slopes, must have 12"},
    {"NotANumber", [](Network& n) { n.layers[1].weights[7] = std::nanf(""); }, "weights[7] is nan"},
    {"Infinite", [](Network& n) { n.layers[1].bias[2] = std::numeric_limits<float>::infinity(); },
     "bias values[2] is inf"},
    {"Clip",
     [](Network& n) {
       n.layers[1].activation = Activation::kClip;
       n.layers[1].clip_min = 2;
     },
     "clips to 2..1"},
    {"NotRgb", [](Network& n) { n.layers.pop_back(); }, "the result has 12 channels, must have 3"},
    {"Scale", [](Network& n) { n.scale = 3; },
     "an image 1 pixels wide gives 2 pixels, must give 3 (scale 3, pad_px 1, align_px 1)"},
    {"ScaleLimit", [](Network& n) { n.scale = 17; }, "scale is 17, outside 1..16"},
    {"Pad", [](Network& n) { n.pad_px = 2; }, "an image 1 pixels wide gives 6 pixels, must give 2"},
    {"PadLimit", [](Network& n) { n.pad_px = 2000; }, "pad_px is 2000, outside 0..1024"},
    {"NoPixelLeft", [](Network& n) { n.pad_px = 0; },
     "layer 1 'conv' (conv): is -1 pixels wide for an image of 1"},
    {"Unused",
     [](Network& n) {
       n.layers.insert(n.layers.begin() + 1, Conv(0, 3, 3, 1));
       n.layers[2].inputs = {0};
       n.layers[3].inputs = {2};
     },
     "layer 1 'conv' (conv): has a result that no layer reads"},
    {"PoolingMix",
     [](Network& n) {
       n.layers = {
           n.layers[0],
           {.op = Op::kGlobalAveragePool,
            .name = "pool",
            .inputs = {0},
            .out_channels = 3,
            .in_channels = 3},
           {.op = Op::kAdd, .name = "add", .inputs = {0, 1}, .out_channels = 3, .in_channels = 3}};
     },
     "layer 2 'add' (add): mixes values per pixel with values per image"},
    {"EnlargedMeans",
     [](Network& n) {
       const auto pool = [](int of) {
         return Layer{.op = Op::kGlobalAveragePool,
                      .name = "pool",
                      .inputs = {of},
                      .out_channels = 3,
                      .in_channels = 3};
       };
       n.layers = {
           n.layers[0],
           pool(0),
           {.op = Op::kResizeNearest,
            .name = "resize",
            .inputs = {1},
            .out_channels = 3,
            .in_channels = 3,
            .factor = 2},
           pool(2),
           {.op = Op::kMul, .name = "mul", .inputs = {0, 3}, .out_channels = 3, .in_channels = 3}};
       n.scale = 1;
       n.pad_px = 0;
     },
     "layer 2 'resize' (nearest resize): holds values for the whole image and is 2 pixels wide, "
     "must be 1"},
    {"FullyConnectedPlanes",
     [](Network& n) {
       n.layers[1].op = Op::kFullyConnected;
       n.layers[1].weights.resize(36);
     },
     "must follow a global average pool"},
    {"Activations",
     [](Network& n) {
       // 8192 channels at four times the pixels, fifteen times over.
       n.layers = {n.layers[0], Conv(0, 3, 8192, 1)};
       n.layers.push_back({.op = Op::kResizeNearest,
                           .name = "resize",
                           .inputs = {1},
                           .out_channels = 8192,
                           .in_channels = 8192,
                           .factor = 8});
       n.layers.push_back(Conv(2, 8192, 3, 1));
     },
     "activations per source pixel, the limit is 500000"},
    {"Period",
     [](Network& n) {
       n.layers[1].stride_px = 16;
       n.align_px = 9;
     },
     "raises the common multiple of align_px and all strides to 144, the limit is 64"},
};

INSTANTIATE_TEST_SUITE_P(Defects, ValidateTest, ::testing::ValuesIn(kDefects),
                         [](const auto& info) { return info.param.name; });

TEST(InferBorderTest, RefusesABorderThatHasNoMiddle) {
  Network network = SmallNetwork();
  // A 2x2 convolution at the result's size takes one pixel off.
  network.layers.push_back(Conv(2, 3, 3, 2));
  const absl::Status status = InferBorder(network);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("the layers cut 5 result pixels off each axis, must be 0 or more and a "
                        "multiple of 4"));
}

// Down by strides, up again by a shuffle: exact for sides that the strides divide.
TEST(InferBorderTest, FindsEveryAlignment) {
  for (const std::vector<int>& strides :
       {std::vector{2}, {3}, {5}, {6}, {7}, {2, 3}, {3, 2}, {2, 2, 2}}) {
    Network network;
    network.layers = {{.op = Op::kInput, .name = "input", .out_channels = 3}};
    int align_px = 1;
    for (const int stride_px : strides) {
      network.layers.push_back(Conv(static_cast<int>(network.layers.size()) - 1, 3, 3, stride_px));
      network.layers.back().stride_px = stride_px;
      align_px *= stride_px;
    }
    for (const int factor : strides) {
      network.layers.push_back({.op = Op::kResizeNearest,
                                .name = "resize",
                                .inputs = {static_cast<int>(network.layers.size()) - 1},
                                .out_channels = 3,
                                .in_channels = 3,
                                .factor = factor});
    }
    const absl::Status status = InferBorder(network);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(network.align_px, align_px);
    EXPECT_EQ(network.pad_px, 0);
    EXPECT_EQ(network.scale, 1);
  }
}

// Sides that grow sixteenfold layer by layer leave the range of an int, below zero as above.
TEST(InferBorderTest, RefusesSidesBeyondAnInt) {
  Network network;
  network.layers = {{.op = Op::kInput, .name = "input", .out_channels = 3}};
  for (int i = 0; i < 5; ++i) {
    network.layers.push_back(Conv(i, 3, 3, 1));
    network.layers.back().stride_px = 16;
  }
  network.layers.push_back({.op = Op::kCrop,
                            .name = "crop",
                            .inputs = {5},
                            .out_channels = 3,
                            .in_channels = 3,
                            .crop_px = 1024});
  for (int i = 6; i < 12; ++i) {
    network.layers.push_back({.op = Op::kResizeNearest,
                              .name = "resize",
                              .inputs = {i},
                              .out_channels = 3,
                              .in_channels = 3,
                              .factor = 16});
  }
  const absl::Status status = InferBorder(network);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("pad_px is 16779264, outside 0..1024"));
}

TEST(LayerSizesTest, AConvolutionOfLessThanItsKernelGivesNothing) {
  Network network = SmallNetwork();
  network.layers[1] = Conv(0, 3, 12, 5);
  network.layers[1].stride_px = 4;
  network.pad_px = 0;
  for (const auto& [side_px, given] : {std::pair{1, 0}, {4, 0}, {5, 1}, {8, 1}, {9, 2}}) {
    EXPECT_EQ(LayerSizes(network, {side_px, side_px})[1].width, given) << side_px;
  }
}

TEST(InferBorderTest, RefusesLayersThatShrink) {
  Network network = SmallNetwork();
  network.layers.pop_back();
  network.layers[1] = Conv(0, 3, 3, 2);
  network.layers[1].stride_px = 2;
  const absl::Status status = InferBorder(network);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the layers scale by 0.5"));
}

}  // namespace
}  // namespace upscaled
