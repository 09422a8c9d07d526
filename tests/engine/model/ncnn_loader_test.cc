#include "engine/model/ncnn_loader.h"

#include <limits>
#include <string>
#include <vector>

#include "engine/backends/reference/layers.h"
#include "engine/backends/reference/tensor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/model/loader_checks.h"
#include "tests/engine/model/ncnn_files.h"

namespace upscaled {
namespace {

using test::NcnnFiles;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint32_t kFloat16 = 0x01306B47;

NcnnFiles WithInput() { return NcnnFiles().Line("Input in 0 1 x"); }

absl::StatusOr<Network> Parse(const NcnnFiles& files) {
  return ParseNcnn(files.param(), files.bin);
}

TEST(NcnnLoaderTest, ConvolutionWithFloat32Weights) {
  const auto network =
      Parse(WithInput()
                .Line("Convolution conv 1 1 x y 0=3 1=3 4=1 5=1 6=81 9=2 -23310=1,1.000000e-01")
                .Tag(0)
                .Values(Ramp(81))
                .Values<float>({7, 8, 9}));
  ASSERT_TRUE(network.ok()) << network.status();
  ASSERT_EQ(network->layers.size(), 2u);
  const Layer& conv = network->layers[1];
  EXPECT_EQ(conv.op, Op::kConv);
  EXPECT_EQ(conv.name, "conv");
  EXPECT_EQ(conv.padding_px, 1);
  EXPECT_EQ(conv.weights, Ramp(81));
  EXPECT_THAT(conv.bias, ElementsAre(7, 8, 9));
  EXPECT_EQ(conv.activation, Activation::kLeakyRelu);
  EXPECT_THAT(conv.slope, ElementsAre(0.1f));
  EXPECT_EQ(network->scale, 1);
  EXPECT_EQ(network->pad_px, 0);
}

TEST(NcnnLoaderTest, Float16WeightsArePaddedToFourBytes) {
  // 1, -2, 0.5, the largest, the smallest normal, the smallest subnormal, 0, -0, 1/3; and padding.
  const std::vector<uint16_t> halves = {0x3C00, 0xC000, 0x3800, 0x7BFF, 0x0400,
                                        0x0001, 0x0000, 0x8000, 0x3555, 0};
  const auto network =
      Parse(WithInput().Line("Convolution conv 1 1 x y 0=3 1=1 6=9").Tag(kFloat16).Values(halves));
  ASSERT_TRUE(network.ok()) << network.status();
  EXPECT_THAT(network->layers[1].weights,
              ElementsAre(1, -2, 0.5f, 65504, 6.103515625e-05f, 5.9604644775390625e-08f, 0, -0.0f,
                          0.333251953125f));
  EXPECT_THAT(network->layers[1].bias, ElementsAre(0, 0, 0));
}

TEST(NcnnLoaderTest, Groups) {
  const auto network = Parse(
      WithInput().Line("ConvolutionDepthWise c 1 1 x y 0=3 1=1 6=3 7=3").Tag(0).Values(Ramp(3)));
  ASSERT_TRUE(network.ok()) << network.status();
  EXPECT_EQ(network->layers[1].op, Op::kGroupedConv);
  EXPECT_EQ(network->layers[1].groups, 3);
  EXPECT_EQ(network->layers[1].weights, Ramp(3));
  ExpectError(Parse(WithInput().Line("ConvolutionDepthWise c 1 1 x y 0=3 1=1 6=3 7=2")),
              absl::StatusCode::kInvalidArgument, "cannot share 3 channels among 2 groups");
}

TEST(NcnnLoaderTest, CurvesByTheirNames) {
  for (const auto& [line, activation] : {std::pair{"Sigmoid a 1 1 x y", Activation::kSigmoid},
                                         {"Swish a 1 1 x y", Activation::kSilu},
                                         {"Mish a 1 1 x y", Activation::kMish},
                                         {"GELU a 1 1 x y", Activation::kGelu},
                                         {"GELU a 1 1 x y 0=1", Activation::kGeluTanh},
                                         {"Softplus a 1 1 x y", Activation::kSoftplus}}) {
    const auto network = Parse(WithInput().Line(line));
    ASSERT_TRUE(network.ok()) << network.status();
    EXPECT_EQ(network->layers[1].activation, activation) << line;
  }
}

TEST(NcnnLoaderTest, DeconvolutionSwapsChannelAxes) {
  // ncnn: output 0 of inputs 0..2, then output 1, ...
  const auto network =
      Parse(WithInput().Line("Deconvolution up 1 1 x y 0=3 1=2 3=2 6=36").Tag(0).Values(Ramp(36)));
  ASSERT_TRUE(network.ok()) << network.status();
  const Layer& up = network->layers[1];
  EXPECT_EQ(up.op, Op::kConvTranspose);
  EXPECT_EQ(network->scale, 2);
  // Ours: input 0 of outputs 0..2: ncnn's 1..4, 13..16, 25..28.
  EXPECT_THAT(std::vector<float>(up.weights.begin(), up.weights.begin() + 12),
              ElementsAre(1, 2, 3, 4, 13, 14, 15, 16, 25, 26, 27, 28));
}

TEST(NcnnLoaderTest, ActivationIsFusedWhereNobodySeesThePlainResult) {
  const auto network = Parse(WithInput()
                                 .Line("Convolution conv 1 1 x y 0=3 1=1 6=9")
                                 .Line("PReLU act 1 1 y z 0=3")
                                 .Tag(0)
                                 .Zeros(9)
                                 .Values<float>({1, 2, 3}));
  ASSERT_TRUE(network.ok()) << network.status();
  ASSERT_EQ(network->layers.size(), 2u);
  EXPECT_EQ(network->layers[1].activation, Activation::kPRelu);
  EXPECT_THAT(network->layers[1].slope, ElementsAre(1, 2, 3));
}

TEST(NcnnLoaderTest, ActivationOfASharedBlobStaysALayer) {
  const auto network = Parse(WithInput()
                                 .Line("Convolution conv 1 1 x y 0=3 1=1 6=9")
                                 .Line("Split split 1 2 y y0 y1")
                                 .Line("ReLU act 1 1 y0 z 0=2.000000e-01")
                                 .Line("BinaryOp add 2 1 z y1 out")
                                 .Tag(0)
                                 .Zeros(9));
  ASSERT_TRUE(network.ok()) << network.status();
  ASSERT_EQ(network->layers.size(), 4u);
  EXPECT_EQ(network->layers[1].activation, Activation::kNone);
  EXPECT_EQ(network->layers[2].op, Op::kActivation);
  EXPECT_EQ(network->layers[2].activation, Activation::kLeakyRelu);
  EXPECT_THAT(network->layers[3].inputs, ElementsAre(2, 1));
}

TEST(NcnnLoaderTest, SkipConnectionOfASuperResolutionNetwork) {
  const auto network = Parse(WithInput()
                                 .Line("Split split 1 2 x x0 x1")
                                 .Line("Convolution conv 1 1 x0 y 0=12 1=3 4=1 6=324")
                                 .Line("PixelShuffle shuffle 1 1 y z 0=2")
                                 .Line("Interp resize 1 1 x1 w 0=1 1=2.000000e+00 2=2.000000e+00")
                                 .Line("Eltwise add 2 1 z w out 0=1 -23301=0")
                                 .Tag(0)
                                 .Zeros(324));
  ASSERT_TRUE(network.ok()) << network.status();
  EXPECT_EQ(network->scale, 2);
  EXPECT_EQ(network->layers[3].op, Op::kResizeNearest);
  EXPECT_EQ(network->layers[4].op, Op::kAdd);
  EXPECT_THAT(network->layers[4].inputs, ElementsAre(2, 3));
}

TEST(NcnnLoaderTest, BothFormsOfCrop) {
  for (const char* crop : {"Crop crop 2 1 x0 y1 c 0=1 1=1",
                           "Crop crop 1 1 x0 c -23309=2,1,1 -23310=2,-1,-1 -23311=2,-2,-1"}) {
    SCOPED_TRACE(crop);
    const bool by_reference = std::string(crop).find(" 2 1 ") != std::string::npos;
    NcnnFiles files =
        WithInput().Line("Split s 1 2 x x0 x1").Line("Convolution conv 1 1 x1 y 0=3 1=3 6=81");
    if (by_reference) files.Line("Split t 1 2 y y0 y1");
    files.Line(crop).Line(by_reference ? "BinaryOp add 2 1 c y0 out" : "BinaryOp add 2 1 c y out");
    const auto network = Parse(files.Tag(0).Zeros(81));
    ASSERT_TRUE(network.ok()) << network.status();
    EXPECT_EQ(network->layers[2].op, Op::kCrop);
    EXPECT_EQ(network->layers[2].crop_px, 1);
    EXPECT_EQ(network->pad_px, 1);
  }
}

// One line between a convolution of zeros whose three results are 1, 10 and 100, named y, and the
// end; the values that it makes of them. `weights` are the line's own.
std::vector<float> Compute(const std::vector<std::string>& lines,
                           const std::vector<float>& weights = {}) {
  NcnnFiles files = WithInput().Line("Convolution conv 1 1 x y 0=3 1=1 5=1 6=9");
  for (const std::string& line : lines) files.Line(line);
  const auto network = Parse(files.Tag(0).Zeros(9).Values<float>({1, 10, 100}).Values(weights));
  EXPECT_TRUE(network.ok()) << network.status();
  if (!network.ok()) return {};
  std::vector<reference::Tensor> tensors;
  for (const Layer& layer : network->layers) {
    std::vector<const reference::Tensor*> inputs;
    for (const int input : layer.inputs) inputs.push_back(&tensors[input]);
    reference::Tensor dst({0, 0, 1, 1}, layer.out_channels);
    if (layer.op != Op::kInput) reference::ComputeLayer(layer, inputs, dst);
    tensors.push_back(std::move(dst));
  }
  return tensors.back().values;
}

TEST(NcnnLoaderTest, ArithmeticWithANumber) {
  EXPECT_THAT(Compute({"BinaryOp b 1 1 y z 0=0 1=1 2=0.5"}), ElementsAre(1.5f, 10.5f, 100.5f));
  EXPECT_THAT(Compute({"BinaryOp b 1 1 y z 0=1 1=1 2=1"}), ElementsAre(0, 9, 99));
  EXPECT_THAT(Compute({"BinaryOp b 1 1 y z 0=2 1=1 2=2"}), ElementsAre(2, 20, 200));
  EXPECT_THAT(Compute({"BinaryOp b 1 1 y z 0=3 1=1 2=2"}), ElementsAre(0.5f, 5, 50));
  EXPECT_THAT(Compute({"BinaryOp b 1 1 y z 0=7 1=1 2=2"}), ElementsAre(1, -8, -98));
}

TEST(NcnnLoaderTest, ArithmeticOfTwoBlobs) {
  const auto compute = [](const std::string& line) {
    return Compute({"Split s 1 2 y a c", "BinaryOp b 1 1 c d 0=2 1=1 2=2", line});
  };
  EXPECT_THAT(compute("BinaryOp j 2 1 a d z 0=0"), ElementsAre(3, 30, 300));
  EXPECT_THAT(compute("BinaryOp j 2 1 a d z 0=1"), ElementsAre(-1, -10, -100));
  EXPECT_THAT(compute("BinaryOp j 2 1 a d z 0=7"), ElementsAre(1, 10, 100));
  EXPECT_THAT(compute("BinaryOp j 2 1 a d z 0=2"), ElementsAre(2, 200, 20000));
  EXPECT_THAT(compute("Eltwise j 2 1 a d z 0=1 -23301=2,0.5,2"), ElementsAre(4.5f, 45, 450));
  EXPECT_THAT(compute("Eltwise j 2 1 a d z 0=0"), ElementsAre(2, 200, 20000));
  EXPECT_THAT(Compute({"Split s 1 3 y a b c", "Eltwise j 3 1 a b c z 0=1 -23301=3,1,2,4"}),
              ElementsAre(7, 70, 700));
}

TEST(NcnnLoaderTest, ScaleByWeights) {
  EXPECT_THAT(Compute({"Scale s 1 1 y z 0=3 1=1"}, {1, 2, 3, 4, 5, 6}), ElementsAre(5, 25, 306));
  EXPECT_THAT(
      Compute({"Split t 1 2 y a b", "Scale s 1 1 a c 0=3", "BinaryOp j 2 1 b c z"}, {1, 2, 3}),
      ElementsAre(2, 30, 400));
}

TEST(NcnnLoaderTest, PixelShuffleWhoseChannelsLieTogether) {
  for (const bool shared : {false, true}) {
    NcnnFiles files = WithInput().Line("Convolution conv 1 1 x y 0=12 1=1 5=1 6=36");
    if (shared) files.Line("Split s 1 2 y a b").Line("PixelShuffle p 1 1 a c 0=2 1=1");
    if (shared) files.Line("PixelShuffle q 1 1 b d 0=2").Line("BinaryOp j 2 1 c d z");
    if (!shared) files.Line("PixelShuffle p 1 1 y z 0=2 1=1");
    const auto network = Parse(files.Tag(0).Zeros(36).Values(Ramp(12)));
    ASSERT_TRUE(network.ok()) << network.status();
    const Layer& permuted = network->layers[shared ? 2 : 1];
    EXPECT_EQ(permuted.op, Op::kConv);
    if (shared) {
      EXPECT_EQ(permuted.weights[1 * 12 + 3], 1);  // the second of the first pixel's four
    } else {
      EXPECT_THAT(permuted.bias, ElementsAre(1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9, 12));
    }
  }
}

TEST(NcnnLoaderTest, EveryPadding) {
  for (const auto& [parameters, mode] : {std::pair{"4=0 5=7", PadMode::kConstant},
                                         {"4=1", PadMode::kReplicate},
                                         {"4=2", PadMode::kReflect}}) {
    const auto network =
        Parse(WithInput()
                  .Line(absl::StrCat("Padding p 1 1 x y 0=1 1=1 2=1 3=1 ", parameters))
                  .Line("Convolution conv 1 1 y z 0=3 1=3 6=81")
                  .Tag(0)
                  .Zeros(81));
    ASSERT_TRUE(network.ok()) << network.status();
    EXPECT_EQ(network->layers[1].op, Op::kPad);
    EXPECT_EQ(network->layers[1].padding_px, 1);
    EXPECT_EQ(network->layers[1].pad_mode, mode);
    EXPECT_EQ(network->pad_px, 0);
  }
}

TEST(NcnnLoaderTest, ReshapesThatChangeNothing) {
  EXPECT_THAT(Compute({"Reshape r 1 1 y z 0=0 1=0 2=0"}), ElementsAre(1, 10, 100));
  const auto network = Parse(WithInput()
                                 .Line("Split s 1 2 x x0 x1")
                                 .Line("Pooling p 1 1 x0 y 0=1 4=1")
                                 .Line("Reshape r 1 1 y f 0=-1")
                                 .Line("InnerProduct fc 1 1 f g 0=3 2=9")
                                 .Line("Reshape q 1 1 g h 0=1 1=1 2=3")
                                 .Line("BinaryOp mul 2 1 x1 h out 0=2")
                                 .Tag(0)
                                 .Zeros(9));
  ASSERT_TRUE(network.ok()) << network.status();
  EXPECT_EQ(network->layers.size(), 4u);
  ExpectError(Parse(WithInput().Line("Reshape r 1 1 x y 0=4 1=4 2=3")),
              absl::StatusCode::kUnimplemented,
              "to 4 x 4 x 3 is not supported, only where it changes nothing");
}

// A permutation of 8,000 channels has 64 million weights, of which the file has none.
TEST(NcnnLoaderTest, WeightsThatTheLoaderMakesCount) {
  NcnnFiles files = WithInput();
  std::string blob = "x";
  for (const int copies : {50, 53}) {
    std::string names;
    for (int i = 0; i < copies; ++i) absl::StrAppend(&names, " ", blob, "_", i);
    files.Line(absl::StrCat("Split s", copies, " 1 ", copies, " ", blob, names));
    files.Line(absl::StrCat("Concat c", copies, " ", copies, " 1", names, " ", blob, "c"));
    blob += "c";
  }
  files.Line(absl::StrCat("Split last 1 3 ", blob, " a b c"));
  for (const char* name : {"a", "b", "c"}) {
    files.Line(absl::StrCat("PixelShuffle p", name, " 1 1 ", name, " ", name, "2 0=1 1=1"));
  }
  ExpectError(Parse(files), absl::StatusCode::kInvalidArgument,
              "layer 7 'pb' (PixelShuffle): network has 126420900 weights, the limit is 100000000");
}

TEST(NcnnLoaderTest, WrongBytes) {
  const NcnnFiles conv = WithInput().Line("Convolution conv 1 1 x y 0=3 1=1 5=1 6=9");
  const auto invalid = absl::StatusCode::kInvalidArgument;
  NcnnFiles files = conv;
  ExpectError(Parse(files), invalid,
              "layer 1 'conv' (Convolution): weights end too early: needs 4 bytes at offset 0, 0 "
              "are left");
  ExpectError(Parse(files.Tag(0).Zeros(8)), invalid, "needs 36 bytes at offset 4, 32 are left");
  ExpectError(Parse(files.Zeros(3)), invalid, "needs 12 bytes at offset 40, 8 are left");
  ExpectError(Parse(files.Zeros(2)), invalid, "weights have 56 bytes, the layers use 52 of them");

  files = conv;
  ExpectError(Parse(files.Tag(0x000D4B38).Zeros(12)), absl::StatusCode::kUnimplemented,
              "weight storage 0x000D4B38 (int8) is not supported");
  files = conv;
  std::vector<float> weights(9, 0.0f);
  weights[4] = std::numeric_limits<float>::quiet_NaN();
  ExpectError(Parse(files.Tag(0).Values(weights).Zeros(3)), invalid,
              "layer 1 'conv' (conv): weights[4] is nan");
}

TEST(NcnnLoaderTest, HugeCountsAreRefusedBeforeAllocation) {
  const auto invalid = absl::StatusCode::kInvalidArgument;
  // Consistent, and 9.6 GB of weights that are not there.
  ExpectError(Parse(WithInput()
                        .Line("Convolution a 1 1 x y 0=8192 1=1 6=24576")
                        .Line("Convolution b 1 1 y z 0=8192 1=31 6=2147483647")
                        .Tag(0)
                        .Zeros(24576)),
              invalid, "8192 x 8192 channels x 961 need 64491618304");
  ExpectError(Parse(WithInput().Line("Convolution a 1 1 x y 0=8192 1=31 6=23617536").Tag(0)),
              invalid, "needs 94470144 bytes at offset 4, 0 are left");
  ExpectError(Parse(WithInput().Line("Convolution a 1 1 x y 0=2000000000 1=1 6=1")), invalid,
              "has 2000000000 channels, outside 1..8192");
  ExpectError(ParseNcnn("7767517\n2000000000 1\n", ""), invalid,
              "line 2: '2000000000' is not a count of 1..4096");
}

TEST(NcnnLoaderTest, WrongText) {
  const auto invalid = absl::StatusCode::kInvalidArgument;
  ExpectError(ParseNcnn("", ""), invalid, "the .param file is empty");
  ExpectError(ParseNcnn("7767518\n1 1\n", ""), invalid, "line 1: not an ncnn .param file");
  ExpectError(ParseNcnn("7767517\n3 3\nInput in 0 1 x\n", ""), invalid,
              "file announces 3 layers and has 1");
  ExpectError(ParseNcnn("7767517\n1 1\nInput in 0\n", ""), invalid, "line 3: a layer needs");
  ExpectError(ParseNcnn("7767517\n1 1\nInput in 0 2 x\n", ""), invalid,
              "line 3: layer 'in' names fewer than its 2 blobs");
  ExpectError(Parse(WithInput().Line("ReLU r 1 1 x y zero")), invalid,
              "line 4: 'zero' is not a parameter 'id=value'");
  ExpectError(Parse(WithInput().Line("ReLU r 1 1 x y -23300")), invalid,
              "'-23300' is not a parameter 'id=value'");
  ExpectError(Parse(WithInput().Line("ReLU r 1 1 x y 0=")), invalid, "'' is not a number");
  ExpectError(Parse(WithInput().Line("ReLU r 1 1 x y 0=nan")), invalid, "'nan' is not a number");
  ExpectError(Parse(WithInput().Line("ReLU r 1 1 x y 0=1e300")), invalid, "is not a number");
  ExpectError(Parse(WithInput().Line("ReLU r 1 1 x y 0=1 0=2")), invalid,
              "parameter 0 is given twice");
  ExpectError(Parse(WithInput().Line("ReLU r 1 1 x y -23310=5,1")), invalid,
              "array parameter 10 announces 5 values and has 1");
  ExpectError(Parse(WithInput().Line("PixelShuffle p 1 1 x y 0=1.5")), invalid,
              "parameter 0 is 1.5, must be an integer");
}

TEST(NcnnLoaderTest, WrongWiring) {
  const auto invalid = absl::StatusCode::kInvalidArgument;
  ExpectError(Parse(NcnnFiles().Line("ReLU r 1 1 x y")), invalid, "reads blob 'x'");
  ExpectError(Parse(WithInput().Line("ReLU r 1 1 q y")), invalid,
              "layer 1 'r' (ReLU): reads blob 'q', which no earlier layer gives");
  ExpectError(Parse(WithInput().Line("BinaryOp add 2 1 x x y")), invalid, "another has read");
  ExpectError(Parse(WithInput().Line("Input in2 0 1 y")), invalid,
              "the first layer, and no other, must be an Input");
  ExpectError(Parse(WithInput().Line("Split s 1 2 x a b")), invalid,
              "the layers leave 2 blobs unread");
  ExpectError(Parse(WithInput().Line("Split s 1 2 x a a")), invalid,
              "gives blob 'a' a second time");
  // The branches differ by two pixels.
  ExpectError(Parse(WithInput()
                        .Line("Split s 1 2 x a b")
                        .Line("Convolution c 1 1 a y 0=3 1=3 6=81")
                        .Line("BinaryOp add 2 1 y b z")
                        .Tag(0)
                        .Zeros(81)),
              invalid, "layer 2 'add' (add): has inputs");
}

TEST(NcnnLoaderTest, UnsupportedIsNamed) {
  const auto unimplemented = absl::StatusCode::kUnimplemented;
  ExpectError(Parse(WithInput().Line("LSTM l 1 1 x y")), unimplemented,
              "layer 1 'l' (LSTM): the layer type is not supported; supported are Input, Conv");
  ExpectError(Parse(WithInput().Line("Convolution c 1 1 x y 0=3 1=1 2=2 6=9")), unimplemented,
              "dilation 2 (parameter 2) is not supported, only 1");
  ExpectError(Parse(WithInput().Line("Convolution c 1 1 x y 0=3 1=3 11=1 6=27")), unimplemented,
              "kernel height 1 (parameter 11)");
  ExpectError(Parse(WithInput().Line("Convolution c 1 1 x y 0=3 1=1 6=9 9=6").Tag(0).Zeros(9)),
              unimplemented, "activation type 6 is not supported");
  ExpectError(Parse(WithInput().Line("ReLU r 1 1 x y 7=1")), unimplemented,
              "parameter 7 is not supported");
  ExpectError(Parse(WithInput().Line("Interp i 1 1 x y 0=4 1=2 2=2")), unimplemented,
              "resize type 4 is not supported");
  ExpectError(Parse(WithInput().Line("Pooling p 1 1 x y 0=1 1=2")), unimplemented,
              "windowed pooling is not supported");
  ExpectError(Parse(WithInput().Line("Padding p 1 1 x y 0=1 1=1 2=1 3=2")), unimplemented,
              "right padding 2 (parameter 3) is not supported, only 1");
  ExpectError(Parse(WithInput().Line("Padding p 1 1 x y 0=1 1=1 2=1 3=1 4=3")), unimplemented,
              "mode 3 is not supported");
  ExpectError(Parse(WithInput().Line("BinaryOp b 1 1 x y 0=6 1=1 2=0.5")), unimplemented,
              "operation 6 is not supported, only 0, 1, 2, 3 and 7");
  ExpectError(Parse(WithInput().Line("BinaryOp b 1 1 x y 0=3 1=1 2=0")),
              absl::StatusCode::kInvalidArgument, "divides by 0");
  ExpectError(Parse(WithInput().Line("Scale s 1 1 x y 0=4")), absl::StatusCode::kInvalidArgument,
              "has 4 weights for 3 channels");
  ExpectError(Parse(WithInput().Line("Split s 1 2 x a b").Line("Eltwise e 2 1 a b y 0=2")),
              unimplemented, "operation 2 is not supported, only 0 (product of 2) and 1 (sum)");
  ExpectError(
      Parse(WithInput().Line("Split s 1 2 x a b").Line("Eltwise e 2 1 a b y 0=1 -23301=1,2")),
      absl::StatusCode::kInvalidArgument, "has 1 coefficients for 2 inputs");
}

}  // namespace
}  // namespace upscaled
