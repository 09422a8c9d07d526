#include "engine/model/onnx/loader.h"

#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "engine/backends/reference/layers.h"
#include "engine/backends/reference/tensor.h"
#include "engine/model/limits.h"
#include "engine/model/loader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/golden_files.h"
#include "tests/engine/model/loader_checks.h"
#include "tests/engine/model/onnx_files.h"

namespace upscaled {
namespace {

using test::OnnxFile;
using test::OnnxNode;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::HasSubstr;

absl::StatusOr<Network> Parse(const OnnxFile& file) { return ParseOnnx(file.bytes()); }

std::vector<Op> OpsOf(const Network& network) {
  std::vector<Op> ops;
  for (const Layer& layer : network.layers) ops.push_back(layer.op);
  return ops;
}

// x -> 1x1 convolution of ones with `channels` results, named y.
OnnxFile WithConv(int channels) {
  return OnnxFile().Kernel("w", channels, 3, 1).Add({"Conv", {"x", "w"}, "y"});
}

TEST(OnnxLoaderTest, Convolution) {
  const auto network = Parse(OnnxFile()
                                 .Floats("w", {3, 3, 3, 3}, Ramp(81))
                                 .Floats("b", {3}, {7, 8, 9})
                                 .Add(OnnxNode("Conv", {"x", "w", "b"}, "out")
                                          .Ints("kernel_shape", {3, 3})
                                          .Ints("pads", {1, 1, 1, 1})
                                          .Ints("strides", {1, 1})
                                          .Ints("dilations", {1, 1})
                                          .Int("group", 1)));
  ASSERT_TRUE(network.ok()) << network.status();
  ASSERT_THAT(OpsOf(*network), ElementsAre(Op::kInput, Op::kConv));
  const Layer& conv = network->layers[1];
  EXPECT_EQ(conv.name, "the_out");
  EXPECT_EQ(conv.padding_px, 1);
  EXPECT_EQ(conv.weights, Ramp(81));
  EXPECT_THAT(conv.bias, ElementsAre(7, 8, 9));
  EXPECT_EQ(network->scale, 1);
  EXPECT_EQ(network->pad_px, 0);
}

// Exports for web pages take bytes; pixels are 0..1 here.
TEST(OnnxLoaderTest, ScalesOfBytesAreRemoved) {
  const auto conv_alone = [](OnnxFile file) {
    const auto network = Parse(std::move(file));
    ASSERT_TRUE(network.ok()) << network.status();
    ASSERT_THAT(OpsOf(*network), ElementsAre(Op::kInput, Op::kConv));
    EXPECT_EQ(network->layers[1].weights, Ramp(9));
    EXPECT_THAT(network->layers[1].bias, ElementsAre(0, 0, 0));
  };
  const auto with_conv = [](OnnxFile file) {
    return file.Floats("w", {3, 3, 1, 1}, Ramp(9)).Add({"Conv", {"first", "w"}, "conv"});
  };
  const OnnxFile plain = OnnxFile().Floats("byte", {}, {255}).Floats("part", {}, {1 / 255.0f});
  conv_alone(with_conv(OnnxFile(plain).Add({"Div", {"x", "byte"}, "first"}))
                 .Add({"Mul", {"byte", "conv"}, "out"}));
  conv_alone(with_conv(OnnxFile(plain).Add({"Mul", {"x", "part"}, "first"}))
                 .Add({"Div", {"conv", "part"}, "out"}));
  // Inner scales stay.
  const auto inner = Parse(with_conv(OnnxFile(plain).Add({"Identity", {"x"}, "first"}))
                               .Add({"Mul", {"conv", "byte"}, "large"})
                               .Add({"Relu", {"large"}, "out"}));
  ASSERT_TRUE(inner.ok()) << inner.status();
  EXPECT_EQ(inner->layers[1].weights[1], 255 * Ramp(9)[1]);
}

TEST(OnnxLoaderTest, AutomaticPads) {
  for (const auto& [auto_pad, padding_px] :
       {std::pair{"VALID", 0}, {"SAME_UPPER", 1}, {"SAME_LOWER", 1}, {"NOTSET", 0}}) {
    const auto network =
        Parse(OnnxFile()
                  .Kernel("w", 3, 3, 3)
                  .Add(OnnxNode("Conv", {"x", "w"}, "out").String("auto_pad", auto_pad)));
    ASSERT_TRUE(network.ok()) << network.status();
    EXPECT_EQ(network->layers[1].padding_px, padding_px) << auto_pad;
    EXPECT_EQ(network->pad_px, 1 - padding_px) << auto_pad;
  }
}

TEST(OnnxLoaderTest, Groups) {
  const auto network = Parse(OnnxFile()
                                 .Kernel("w", 6, 1, 3)
                                 .Kernel("last", 3, 6, 1)
                                 .Add(OnnxNode("Conv", {"x", "w"}, "y").Int("group", 3))
                                 .Add({"Conv", {"y", "last"}, "out"}));
  ASSERT_TRUE(network.ok()) << network.status();
  EXPECT_THAT(OpsOf(*network), ElementsAre(Op::kInput, Op::kGroupedConv, Op::kConv));
  EXPECT_EQ(network->layers[1].groups, 3);
}

TEST(OnnxLoaderTest, TransposedConvolutionIsTakenAsItIs) {
  const auto network = Parse(OnnxFile()
                                 .Floats("w", {3, 3, 4, 4}, Ramp(144))
                                 .Add(OnnxNode("ConvTranspose", {"x", "w"}, "out")
                                          .Ints("strides", {2, 2})
                                          .Ints("pads", {3, 3, 3, 3})));
  ASSERT_TRUE(network.ok()) << network.status();
  EXPECT_EQ(network->layers[1].op, Op::kConvTranspose);
  EXPECT_EQ(network->layers[1].weights, Ramp(144));
  EXPECT_EQ(network->scale, 2);
  EXPECT_EQ(network->pad_px, 1);
}

TEST(OnnxLoaderTest, WeightsInEveryStorage) {
  const std::vector<float> expected = {1, -2, 0.5f, 65504, 6.103515625e-05f, 0, 1, 2, 3};
  const std::vector<uint16_t> halves = {0x3C00, 0xC000, 0x3800, 0x7BFF, 0x0400,
                                        0x0000, 0x3C00, 0x4000, 0x4200};
  OnnxFile plain = OnnxFile().Floats("w", {3, 3, 1, 1}, expected);
  plain.Add({"Conv", {"x", "w"}, "out"});
  const auto with_raw = [&](int type, const void* data, size_t bytes) {
    OnnxFile file = plain;
    onnx::TensorProto& tensor = *file.graph().mutable_initializer(0);
    tensor.clear_float_data();
    tensor.set_data_type(type);
    tensor.set_raw_data(data, bytes);
    return Parse(file);
  };
  OnnxFile in_ints = plain;
  in_ints.graph().mutable_initializer(0)->clear_float_data();
  in_ints.graph().mutable_initializer(0)->set_data_type(onnx::TensorProto::FLOAT16);
  for (const uint16_t half : halves) in_ints.graph().mutable_initializer(0)->add_int32_data(half);
  for (const auto& network :
       {Parse(plain), with_raw(onnx::TensorProto::FLOAT, expected.data(), 36),
        with_raw(onnx::TensorProto::FLOAT16, halves.data(), 18), Parse(in_ints)}) {
    ASSERT_TRUE(network.ok()) << network.status();
    EXPECT_EQ(network->layers[1].weights, expected);
  }
}

TEST(OnnxLoaderTest, ConstantsOfEveryKind) {
  OnnxFile file = WithConv(3);
  OnnxNode tensor("Constant", {}, "half");
  onnx::AttributeProto& value = *tensor.proto().add_attribute();
  value.set_name("value");
  value.set_type(onnx::AttributeProto::TENSOR);
  value.mutable_t()->set_data_type(onnx::TensorProto::FLOAT);
  value.mutable_t()->add_float_data(0.5f);
  file.Add(tensor).Add(OnnxNode("Constant", {}, "two").Float("value_float", 2));
  file.Add(OnnxNode("Constant", {}, "scales").Floats("value_floats", {1, 1, 3, 3}));
  file.Add(OnnxNode("Constant", {}, "pads").Ints("value_ints", {0, 0, 1, 1, 0, 0, 1, 1}));
  file.Add({"Identity", {"two"}, "also_two"})
      .Add(OnnxNode("Cast", {"also_two"}, "cast").Int("to", 1));
  file.Add({"Mul", {"y", "cast"}, "a"}).Add({"Add", {"half", "a"}, "b"});
  file.Add({"Pad", {"b", "pads"}, "c"}).Add({"Conv", {"c", "w3"}, "d"}).Kernel("w3", 3, 3, 3);
  file.Add({"Resize", {"d", "", "scales"}, "out"});
  const auto network = Parse(file);
  ASSERT_TRUE(network.ok()) << network.status();
  ASSERT_THAT(OpsOf(*network),
              ElementsAre(Op::kInput, Op::kConv, Op::kPad, Op::kConv, Op::kResizeNearest));
  // Factor and offset went into the convolution.
  EXPECT_THAT(network->layers[1].weights, Each(2.0f));
  EXPECT_THAT(network->layers[1].bias, Each(0.5f));
  EXPECT_EQ(network->layers[2].padding_px, 1);
  EXPECT_EQ(network->layers[4].factor, 3);
  EXPECT_EQ(network->scale, 3);
}

TEST(OnnxLoaderTest, ActivationsAreFusedWhereNobodySeesThePlainResult) {
  const struct {
    OnnxNode node;
    Activation activation;
    std::vector<float> slope;
  } kCases[] = {
      {{"Relu", {"y"}, "out"}, Activation::kRelu, {}},
      {OnnxNode("LeakyRelu", {"y"}, "out"), Activation::kLeakyRelu, {0.01f}},
      {OnnxNode("LeakyRelu", {"y"}, "out").Float("alpha", 0.2f), Activation::kLeakyRelu, {0.2f}},
      {{"PRelu", {"y", "slopes"}, "out"}, Activation::kPRelu, {1, 2, 3}},
      {{"PRelu", {"y", "slope"}, "out"}, Activation::kPRelu, {4, 4, 4}},
      {{"Sigmoid", {"y"}, "out"}, Activation::kSigmoid, {}},
      {{"Mish", {"y"}, "out"}, Activation::kMish, {}},
      {{"Softplus", {"y"}, "out"}, Activation::kSoftplus, {}},
      {{"Gelu", {"y"}, "out"}, Activation::kGelu, {}},
      {OnnxNode("Gelu", {"y"}, "out").String("approximate", "tanh"), Activation::kGeluTanh, {}},
      {OnnxNode("Clip", {"y"}, "out").Float("min", -1).Float("max", 4), Activation::kClip, {}},
      {{"Clip", {"y", "low", "slope"}, "out"}, Activation::kClip, {}},
  };
  for (const auto& test_case : kCases) {
    SCOPED_TRACE(test_case.node.proto().op_type());
    OnnxFile file = WithConv(3).Floats("slopes", {3, 1, 1}, {1, 2, 3}).Floats("slope", {1}, {4});
    file.Floats("low", {}, {-1}).Add(test_case.node);
    const auto network = Parse(file);
    ASSERT_TRUE(network.ok()) << network.status();
    ASSERT_EQ(network->layers.size(), 2u);
    EXPECT_EQ(network->layers[1].activation, test_case.activation);
    EXPECT_EQ(network->layers[1].slope, test_case.slope);
    if (test_case.activation != Activation::kClip) continue;
    EXPECT_EQ(network->layers[1].clip_min, -1);
    EXPECT_EQ(network->layers[1].clip_max, 4);
  }
}

TEST(OnnxLoaderTest, WhatIsReadTwiceStaysPlain) {
  const auto network = Parse(WithConv(3)
                                 .Floats("f", {}, {2})
                                 .Add({"Identity", {"y"}, "same"})
                                 .Add({"Relu", {"same"}, "a"})
                                 .Add({"Mul", {"y", "f"}, "b"})
                                 .Add({"Add", {"a", "b"}, "out"}));
  ASSERT_TRUE(network.ok()) << network.status();
  EXPECT_THAT(OpsOf(*network),
              ElementsAre(Op::kInput, Op::kConv, Op::kActivation, Op::kAffine, Op::kAdd));
  EXPECT_EQ(network->layers[1].activation, Activation::kNone);
  EXPECT_THAT(network->layers[3].weights, ElementsAre(2, 2, 2));
}

// The result for one pixel whose channels are 1, 10 and 100.
std::vector<float> OfOnePixel(const absl::StatusOr<Network>& network) {
  EXPECT_TRUE(network.ok()) << network.status();
  if (!network.ok()) return {};
  std::vector<reference::Tensor> tensors;
  tensors.emplace_back(Rect{0, 0, 1, 1}, 3);
  tensors[0].values = {1, 10, 100};
  for (size_t i = 1; i < network->layers.size(); ++i) {
    const Layer& layer = network->layers[i];
    std::vector<const reference::Tensor*> inputs;
    for (const int input : layer.inputs) inputs.push_back(&tensors[input]);
    reference::Tensor dst({0, 0, network->scale, network->scale}, layer.out_channels);
    reference::ComputeLayer(layer, inputs, dst);
    tensors.push_back(std::move(dst));
  }
  return tensors.back().values;
}

TEST(OnnxLoaderTest, ArithmeticWithConstants) {
  const auto compute = [](const OnnxNode& node) {
    return OfOnePixel(Parse(
        OnnxFile().Floats("c", {}, {2}).Floats("per_channel", {1, 3, 1, 1}, {1, 2, 3}).Add(node)));
  };
  EXPECT_THAT(compute({"Add", {"x", "c"}, "out"}), ElementsAre(3, 12, 102));
  EXPECT_THAT(compute({"Add", {"per_channel", "x"}, "out"}), ElementsAre(2, 12, 103));
  EXPECT_THAT(compute({"Sub", {"x", "per_channel"}, "out"}), ElementsAre(0, 8, 97));
  EXPECT_THAT(compute({"Sub", {"c", "x"}, "out"}), ElementsAre(1, -8, -98));
  EXPECT_THAT(compute({"Mul", {"x", "per_channel"}, "out"}), ElementsAre(1, 20, 300));
  EXPECT_THAT(compute({"Mul", {"c", "x"}, "out"}), ElementsAre(2, 20, 200));
}

TEST(OnnxLoaderTest, ArithmeticOfTwoResults) {
  const auto compute = [](const char* op) {
    // y: the sum of all channels.
    return OfOnePixel(Parse(WithConv(3).Add({op, {"x", "y"}, "out"})));
  };
  EXPECT_THAT(compute("Add"), ElementsAre(112, 121, 211));
  EXPECT_THAT(compute("Sub"), ElementsAre(-110, -101, -11));
  EXPECT_THAT(compute("Mul"), ElementsAre(111, 1110, 11100));
}

TEST(OnnxLoaderTest, BothOrdersOfDepthToSpace) {
  // Twelve channels that count from 0: each the bias of a convolution of zeros.
  const auto compute = [](const char* mode, bool shared) {
    std::vector<float> count(12);
    std::iota(count.begin(), count.end(), 0.0f);
    OnnxFile file;
    file.Floats("w", {12, 3, 1, 1}, std::vector<float>(36, 0.0f)).Floats("b", {12}, count);
    file.Add({"Conv", {"x", "w", "b"}, "y"});
    file.Add(OnnxNode("DepthToSpace", {"y"}, shared ? "a" : "out")
                 .Int("blocksize", 2)
                 .String("mode", mode));
    if (shared) {
      file.Add(OnnxNode("DepthToSpace", {"y"}, "b2").Int("blocksize", 2).String("mode", mode));
      file.Floats("half", {}, {0.5f}).Add({"Mul", {"a", "half"}, "c"});
      file.Add({"Mul", {"b2", "half"}, "d"}).Add({"Add", {"c", "d"}, "out"});
    }
    return OfOnePixel(Parse(file));
  };
  EXPECT_THAT(compute("CRD", false), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_THAT(compute("DCR", false), ElementsAre(0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11));
  const auto network =
      Parse(WithConv(12).Add(OnnxNode("DepthToSpace", {"y"}, "out").Int("blocksize", 2)));
  ASSERT_TRUE(network.ok()) << network.status();
  EXPECT_EQ(network->layers.size(), 3u);  // the order went into the convolution
}

TEST(OnnxLoaderTest, PixelShuffleSpelledByReshapes) {
  const auto network = [](std::initializer_list<int64_t> blocks,
                          std::initializer_list<int64_t> order) {
    return Parse(WithConv(12)
                     .Ints("six", blocks)
                     .Ints("four", {1, 3, 20, 16})
                     .Add({"Reshape", {"y", "six"}, "a"})
                     .Add(OnnxNode("Transpose", {"a"}, "b").Ints("perm", order))
                     .Add({"Reshape", {"b", "four"}, "out"}));
  };
  const auto crd = network({1, 3, 2, 2, 10, 8}, {0, 1, 4, 2, 5, 3});
  ASSERT_TRUE(crd.ok()) << crd.status();
  EXPECT_THAT(OpsOf(*crd), ElementsAre(Op::kInput, Op::kConv, Op::kPixelShuffle));
  EXPECT_EQ(crd->layers[2].factor, 2);
  EXPECT_EQ(crd->scale, 2);
  const auto dcr = network({-1, 2, 2, 3, 10, 8}, {0, 3, 4, 1, 5, 2});
  ASSERT_TRUE(dcr.ok()) << dcr.status();
  EXPECT_EQ(dcr->layers.size(), 3u);
  const auto unimplemented = absl::StatusCode::kUnimplemented;
  ExpectError(network({1, 2, 2, 3, 10, 8}, {0, 1, 4, 2, 5, 3}), unimplemented,
              "node 3 'the_out' (Reshape): shape [1, 3, 20, 16] is not supported");
  ExpectError(network({1, 3, 2, 2, 10, 8}, {0, 1, 2, 4, 5, 3}), unimplemented,
              "output 'out' is rearranged to other than planes, blocks of pixels or a pixel");
  ExpectError(network({1, 6, 2, 2, 10, 4}, {0, 1, 4, 2, 5, 3}), unimplemented,
              "node 1 'the_a' (Reshape): shape [1, 6, 2, 2, 10, 4] is not supported");
}

TEST(OnnxLoaderTest, EveryPad) {
  for (const auto& [mode, expected] : {std::pair{"constant", PadMode::kConstant},
                                       {"edge", PadMode::kReplicate},
                                       {"reflect", PadMode::kReflect}}) {
    const auto network =
        Parse(OnnxFile()
                  .Ints("pads", {0, 0, 1, 1, 0, 0, 1, 1})
                  .Floats("seven", {}, {7})
                  .Kernel("w", 3, 3, 3)
                  .Add(OnnxNode("Pad", {"x", "pads", "seven"}, "y").String("mode", mode))
                  .Add({"Conv", {"y", "w"}, "out"}));
    ASSERT_TRUE(network.ok()) << network.status();
    ASSERT_THAT(OpsOf(*network), ElementsAre(Op::kInput, Op::kPad, Op::kConv));
    EXPECT_EQ(network->layers[1].pad_mode, expected);
    EXPECT_EQ(network->layers[1].pad_value, 7);
    EXPECT_EQ(network->pad_px, 0);
  }
}

TEST(OnnxLoaderTest, EveryWayToCrop) {
  const OnnxFile padded = OnnxFile()
                              .Ints("one", {1})
                              .Ints("minus_one", {-1})
                              .Ints("height", {2})
                              .Ints("width", {-1})
                              .Ints("pads", {0, 0, -1, -1, 0, 0, -1, -1});
  OnnxFile in_one = padded, in_two = padded, negative = padded;
  in_one.Add(OnnxNode("Slice", {"x"}, "out")
                 .Ints("starts", {1, 1})
                 .Ints("ends", {-1, -1})
                 .Ints("axes", {2, 3}));
  in_two.Add({"Slice", {"x", "one", "minus_one", "height"}, "y"});
  in_two.Add({"Slice", {"y", "one", "minus_one", "width", "one"}, "out"});
  negative.Add({"Pad", {"x", "pads"}, "out"});
  for (const OnnxFile& file : {in_one, in_two, negative}) {
    const auto network = Parse(file);
    ASSERT_TRUE(network.ok()) << network.status();
    ASSERT_THAT(OpsOf(*network), ElementsAre(Op::kInput, Op::kCrop));
    EXPECT_EQ(network->layers[1].crop_px, 1);
    EXPECT_EQ(network->pad_px, 1);
  }
  OnnxFile half = padded;
  half.Add({"Slice", {"x", "one", "minus_one", "height"}, "y"}).Add({"Relu", {"y"}, "out"});
  ExpectError(Parse(half), absl::StatusCode::kUnimplemented,
              "node 1 'the_out' (Relu): input 0 is an unfinished crop of one axis");
}

TEST(OnnxLoaderTest, SliceOfChannels) {
  struct Case {
    int64_t start, end;
    int first, channels;
  };
  for (const Case& c : {Case{2, INT64_MAX, 2, 6}, Case{0, 5, 0, 5}, Case{-3, -1, 5, 2}}) {
    const auto network = Parse(WithConv(8)
                                   .Add(OnnxNode("Slice", {"y"}, "z")
                                            .Ints("starts", {c.start})
                                            .Ints("ends", {c.end})
                                            .Ints("axes", {1}))
                                   .Kernel("w2", 3, c.channels, 1)
                                   .Add({"Conv", {"z", "w2"}, "out"}));
    ASSERT_TRUE(network.ok()) << network.status();
    ASSERT_THAT(OpsOf(*network), ElementsAre(Op::kInput, Op::kConv, Op::kSlice, Op::kConv));
    EXPECT_EQ(network->layers[2].first_channel, c.first);
    EXPECT_EQ(network->layers[2].out_channels, c.channels);
  }
}

TEST(OnnxLoaderTest, NormalisationAlongChannels) {
  for (const bool centred : {true, false}) {
    OnnxFile file = OnnxFile().Floats("s", {3}, {1, 2, 3}).Floats("b", {3}, {4, 5, 6});
    file.Add(OnnxNode("Transpose", {"x"}, "last").Ints("perm", {0, 2, 3, 1}));
    std::vector<std::string> inputs = {"last", "s"};
    if (centred) inputs.emplace_back("b");
    file.Add(OnnxNode(centred ? "LayerNormalization" : "RMSNormalization", inputs, "normal")
                 .Int("axis", -1)
                 .Float("epsilon", 0.25f));
    file.Add(OnnxNode("Transpose", {"normal"}, "out").Ints("perm", {0, 3, 1, 2}));
    const auto network = Parse(file);
    ASSERT_TRUE(network.ok()) << network.status();
    ASSERT_THAT(OpsOf(*network), ElementsAre(Op::kInput, Op::kPixelNorm));
    const Layer& norm = network->layers[1];
    EXPECT_EQ(norm.centred, centred);
    EXPECT_EQ(norm.epsilon, 0.25f);
    EXPECT_THAT(norm.weights, ElementsAre(1, 2, 3));
    EXPECT_EQ(norm.bias, centred ? std::vector<float>({4, 5, 6}) : std::vector<float>(3));
  }
}

TEST(OnnxLoaderTest, SqueezeAndExcite) {
  // By convolutions of 1x1, and by Gemm behind a reshape; pooled in both ways.
  OnnxFile by_conv = WithConv(4).Kernel("v", 2, 4, 1).Kernel("u", 4, 2, 1).Kernel("last", 3, 4, 1);
  by_conv.Add({"GlobalAveragePool", {"y"}, "p"}).Add({"Conv", {"p", "v"}, "q"});
  by_conv.Add({"Relu", {"q"}, "r"}).Add({"Conv", {"r", "u"}, "s"}).Add({"Sigmoid", {"s"}, "t"});
  by_conv.Add({"Mul", {"t", "y"}, "z"}).Add({"Conv", {"z", "last"}, "out"});
  OnnxFile by_gemm =
      WithConv(4).Kernel("last", 3, 4, 1).Ints("vector", {1, 4}).Ints("planes", {1, 4, 1, 1});
  by_gemm.Floats("v", {4, 2}, Ramp(8)).Floats("u", {4, 2}, Ramp(8)).Floats("b", {2}, {5, 6});
  by_gemm.Add(OnnxNode("ReduceMean", {"y"}, "p").Ints("axes", {-1, 2}).Int("keepdims", 1));
  by_gemm.Add({"Reshape", {"p", "vector"}, "f"}).Add({"Gemm", {"f", "v", "b"}, "q"});
  by_gemm.Add({"Relu", {"q"}, "r"}).Add(OnnxNode("Gemm", {"r", "u"}, "s").Int("transB", 1));
  by_gemm.Add({"Sigmoid", {"s"}, "g"}).Add({"Reshape", {"g", "planes"}, "t"});
  by_gemm.Add({"Mul", {"y", "t"}, "z"}).Add({"Conv", {"z", "last"}, "out"});
  for (const OnnxFile& file : {by_conv, by_gemm}) {
    const auto network = Parse(file);
    ASSERT_TRUE(network.ok()) << network.status();
    ASSERT_THAT(OpsOf(*network),
                ElementsAre(Op::kInput, Op::kConv, Op::kGlobalAveragePool, Op::kFullyConnected,
                            Op::kFullyConnected, Op::kMul, Op::kConv));
    EXPECT_EQ(network->layers[3].activation, Activation::kRelu);
    EXPECT_EQ(network->layers[4].activation, Activation::kSigmoid);
    EXPECT_THAT(network->layers[5].inputs, ElementsAre(1, 4));
  }
  const auto network = Parse(by_gemm);
  EXPECT_THAT(network->layers[3].weights, ElementsAre(1, 3, 5, 7, 2, 4, 6, 8));  // transposed
  EXPECT_THAT(network->layers[3].bias, ElementsAre(5, 6));
  EXPECT_EQ(network->layers[4].weights, Ramp(8));
}

TEST(OnnxLoaderTest, ResizesThatRepeatPixels) {
  const auto parse = [](const OnnxNode& node) {
    return Parse(OnnxFile().Floats("s", {4}, {1, 1, 2, 2}).Add(node));
  };
  const auto resize = [](const char* transformation, const char* rounding) {
    return OnnxNode("Resize", {"x", "", "s"}, "out")
        .String("mode", "nearest")
        .String("coordinate_transformation_mode", transformation)
        .String("nearest_mode", rounding);
  };
  for (const OnnxNode& node :
       {OnnxNode("Resize", {"x", "s"}, "out"), OnnxNode("Resize", {"x", "", "s"}, "out"),
        OnnxNode("Upsample", {"x", "s"}, "out"), resize("asymmetric", "floor"),
        resize("half_pixel", "round_prefer_ceil"),
        resize("pytorch_half_pixel", "round_prefer_floor"),
        OnnxNode("Upsample", {"x"}, "out").Floats("scales", {1, 1, 2, 2})}) {
    const auto network = parse(node);
    ASSERT_TRUE(network.ok()) << network.status();
    EXPECT_THAT(OpsOf(*network), ElementsAre(Op::kInput, Op::kResizeNearest));
    EXPECT_EQ(network->scale, 2);
  }
  const auto linear = parse(OnnxNode("Resize", {"x", "", "s"}, "out").String("mode", "linear"));
  ASSERT_TRUE(linear.ok()) << linear.status();
  EXPECT_EQ(linear->layers[1].op, Op::kResizeBilinear);
  const auto unimplemented = absl::StatusCode::kUnimplemented;
  ExpectError(parse(resize("asymmetric", "round_prefer_floor")), unimplemented,
              "mode 'nearest' with positions 'asymmetric' and rounding 'round_prefer_floor' is not "
              "supported, only nearest pixels and linear with half_pixel");
  ExpectError(parse(OnnxNode("Upsample", {"x", "s"}, "out").String("mode", "linear")),
              unimplemented, "export with operator set 11 or newer");
  ExpectError(parse(OnnxNode("Resize", {"x", "", "", "s"}, "out")), unimplemented,
              "a fixed size is not supported, only scales");
}

struct FileDefect {
  const char* name;
  std::function<void(OnnxFile&)> make;  // in a file of x and a constant c of 2, without an "out"
  absl::StatusCode code;
  const char* message;
};

class OnnxErrorTest : public ::testing::TestWithParam<FileDefect> {};

TEST_P(OnnxErrorTest, NamesNodeAndReason) {
  OnnxFile file = OnnxFile().Floats("c", {}, {2}).Ints("i", {1, 2});
  GetParam().make(file);
  ExpectError(Parse(file), GetParam().code, GetParam().message);
}

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;

const FileDefect kFileDefects[] = {
    {"Operator",
     [](OnnxFile& f) {
       f.Add({"LSTM", {"x"}, "out"});
     },
     kUnimplemented,
     "node 0 'the_out' (LSTM): the operator is not supported; supported are Conv, ConvTranspose"},
    {"Domain",
     [](OnnxFile& f) {
       OnnxNode node("Conv", {"x", "c"}, "out");
       node.proto().set_domain("com.example");
       f.Add(node);
     },
     kUnimplemented, "the operator of domain 'com.example' is not supported"},
    {"OperatorSet", [](OnnxFile& f) { f.model().mutable_opset_import(0)->set_version(99); },
     kUnimplemented, "operator set 99 is not supported, only 1..23"},
    {"NoOperatorSet", [](OnnxFile& f) { f.model().clear_opset_import(); }, kInvalid,
     "imports no operator set of ONNX"},
    {"Attribute", [](OnnxFile& f) { f.Add(OnnxNode("Relu", {"x"}, "out").Int("depth", 1)); },
     kUnimplemented, "node 0 'the_out' (Relu): attribute 'depth' is not supported"},
    {"AttributeType",
     [](OnnxFile& f) { f.Add(OnnxNode("LeakyRelu", {"x"}, "out").Int("alpha", 1)); }, kInvalid,
     "attribute 'alpha' has the wrong type"},
    {"AttributeTwice",
     [](OnnxFile& f) {
       f.Add(OnnxNode("LeakyRelu", {"x"}, "out").Float("alpha", 1).Float("alpha", 2));
     },
     kInvalid, "attribute 'alpha' is given twice"},
    {"UnknownInput",
     [](OnnxFile& f) {
       f.Add({"Relu", {"q"}, "out"});
     },
     kInvalid, "reads 'q', which no earlier node gives"},
    {"OutputTwice",
     [](OnnxFile& f) {
       f.Add({"Relu", {"x"}, "a"}).Add({"Relu", {"x"}, "a"});
     },
     kInvalid, "gives 'a', which is empty or given already"},
    {"InputCount",
     [](OnnxFile& f) {
       f.Add({"Relu", {"x", "x"}, "out"});
     },
     kInvalid, "has 2 inputs and 1 outputs, must have 1..1 and 1"},
    {"NoOutput",
     [](OnnxFile& f) {
       f.Add({"Relu", {"x"}, "a"});
     },
     kInvalid, "output 'out' is not what the last node that computes gives"},
    {"TwoOutputs",
     [](OnnxFile& f) {
       f.Add({"Relu", {"x"}, "out"});
       f.graph().add_output()->set_name("x");
     },
     kUnimplemented, "has 2 outputs, only one is supported"},
    {"TwoInputs", [](OnnxFile& f) { *f.graph().add_input() = f.graph().input(0); }, kUnimplemented,
     "has the inputs 'x' and 'x', only one is supported"},
    {"NoInput", [](OnnxFile& f) { f.graph().clear_input(); }, kInvalid, "has no input"},
    {"Gray",
     [](OnnxFile& f) {
       f.graph()
           .mutable_input(0)
           ->mutable_type()
           ->mutable_tensor_type()
           ->mutable_shape()
           ->mutable_dim(1)
           ->set_dim_value(1);
     },
     kUnimplemented, "input 'x' has the shape [1, 1, ?, ?], must be [1, 3, height, width]"},
    {"Bytes",
     [](OnnxFile& f) {
       f.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(2);
     },
     kUnimplemented, "input 'x' has the type number 2, must be float in 0..1"},
    {"External",
     [](OnnxFile& f) {
       f.Kernel("w", 3, 3, 1).Add({"Conv", {"x", "w"}, "out"});
       f.graph().mutable_initializer(2)->set_data_location(onnx::TensorProto::EXTERNAL);
     },
     kUnimplemented,
     "node 0 'the_out' (Conv): tensor 'w' keeps its values in another file (external data)"},
    {"DoubleWeights",
     [](OnnxFile& f) {
       f.Kernel("w", 3, 3, 1).Add({"Conv", {"x", "w"}, "out"});
       f.graph().mutable_initializer(2)->set_data_type(onnx::TensorProto::DOUBLE);
     },
     kUnimplemented, "tensor 'w' has the type double, supported are float and float16"},
    {"FewWeights",
     [](OnnxFile& f) {
       f.Floats("w", {3, 3, 1, 1}, Ramp(8)).Add({"Conv", {"x", "w"}, "out"});
     },
     kInvalid, "tensor 'w' of 3x3x1x1 needs 9 values, has 8"},
    {"FewBytes",
     [](OnnxFile& f) {
       f.Floats("w", {3, 3, 1, 1}, {}).Add({"Conv", {"x", "w"}, "out"});
       f.graph().mutable_initializer(2)->set_raw_data("12345");
     },
     kInvalid, "tensor 'w' of 3x3x1x1 needs 36 bytes, has 5"},
    {"HugeTensor",
     [](OnnxFile& f) {
       f.Floats("w", {8192, 3, 31, 31}, {}).Floats("h", {8192, 3, 1 << 30, 31}, {});
       f.Add({"Conv", {"x", "w"}, "out"});
     },
     kInvalid, "tensor 'w' of 8192x3x31x31 needs 23617536 values, has 0"},
    {"TooManyWeights",
     [](OnnxFile& f) {
       f.Floats("slope", {1 << 30, 1 << 30, 1 << 30}, {}).Add({"PRelu", {"x", "slope"}, "out"});
     },
     kInvalid, "must have 0..100000000 values"},
    {"NegativeDimension",
     [](OnnxFile& f) {
       f.Floats("s", {-3, 1, 1}, {}).Add({"PRelu", {"x", "s"}, "out"});
     },
     kInvalid, "tensor 's' has the shape -3x1x1"},
    {"NotANumber",
     [](OnnxFile& f) {
       std::vector<float> weights(9, 1.0f);
       weights[4] = std::numeric_limits<float>::quiet_NaN();
       f.Floats("w", {3, 3, 1, 1}, weights).Add({"Conv", {"x", "w"}, "out"});
     },
     kInvalid, "layer 1 'the_out' (conv): weights[4] is nan"},
    {"WeightShape",
     [](OnnxFile& f) {
       f.Kernel("w", 3, 4, 1).Add({"Conv", {"x", "w"}, "out"});
     },
     kInvalid, "has weights of 3x4x1x1 for 3 channels"},
    {"BiasShape",
     [](OnnxFile& f) {
       f.Kernel("w", 3, 3, 1).Floats("b", {2}, {1, 2}).Add({"Conv", {"x", "w", "b"}, "out"});
     },
     kInvalid, "has a bias of 2 for 3 channels"},
    {"ComputedWeights",
     [](OnnxFile& f) {
       f.Add({"Conv", {"x", "x"}, "out"});
     },
     kUnimplemented, "input 1 is computed, must be a constant"},
    {"ConstantImage",
     [](OnnxFile& f) {
       f.Add({"Relu", {"c"}, "out"});
     },
     kUnimplemented, "input 0 is a constant"},
    {"FlatKernel",
     [](OnnxFile& f) {
       f.Floats("w", {3, 3, 1, 3}, Ramp(27)).Add({"Conv", {"x", "w"}, "out"});
     },
     kUnimplemented, "kernel 1x3 must be square and at most 31"},
    {"KernelShape",
     [](OnnxFile& f) {
       f.Kernel("w", 3, 3, 1).Add(OnnxNode("Conv", {"x", "w"}, "out").Ints("kernel_shape", {3, 3}));
     },
     kInvalid, "kernel_shape is 3, the weights have 1"},
    {"Group",
     [](OnnxFile& f) {
       f.Kernel("w", 3, 3, 1).Add(OnnxNode("Conv", {"x", "w"}, "out").Int("group", 2));
     },
     kInvalid, "cannot share 3 channels among 2 groups"},
    {"GroupWeights",
     [](OnnxFile& f) {
       f.Kernel("w", 3, 3, 1).Add(OnnxNode("Conv", {"x", "w"}, "out").Int("group", 3));
     },
     kInvalid, "has weights of 3x3x1x1 for 3 channels"},
    {"TransposedGroup",
     [](OnnxFile& f) {
       f.Kernel("w", 3, 1, 1).Add(OnnxNode("ConvTranspose", {"x", "w"}, "out").Int("group", 3));
     },
     kUnimplemented, "group 3 is not supported, only 1"},
    {"UnevenPads",
     [](OnnxFile& f) {
       f.Kernel("w", 3, 3, 3).Add(OnnxNode("Conv", {"x", "w"}, "out").Ints("pads", {0, 0, 1, 1}));
     },
     kUnimplemented, "pads [0, 0, 1, 1] are not supported, must be the same in 0..31"},
    {"Dilations",
     [](OnnxFile& f) {
       f.Kernel("w", 3, 3, 3).Add(OnnxNode("Conv", {"x", "w"}, "out").Ints("dilations", {2, 2}));
     },
     kUnimplemented, "dilations [2, 2] are not supported"},
    {"AutoPad",
     [](OnnxFile& f) {
       f.Kernel("w", 3, 3, 2)
           .Add(OnnxNode("Conv", {"x", "w"}, "out").String("auto_pad", "SAME_UPPER"));
     },
     kUnimplemented, "auto_pad 'SAME_UPPER' is not supported with these strides and pads"},
    {"OutputPadding",
     [](OnnxFile& f) {
       f.Kernel("w", 3, 3, 2)
           .Add(OnnxNode("ConvTranspose", {"x", "w"}, "out").Ints("output_padding", {1, 1}));
     },
     kUnimplemented, "output_padding [1, 1] are not supported"},
    {"BroadcastAlongWidth",
     [](OnnxFile& f) {
       f.Floats("row", {3}, {1, 2, 3}).Add({"Add", {"x", "row"}, "out"});
     },
     kUnimplemented,
     "a constant of 3 is not supported, only one number or one for each of 3 channels"},
    {"ConcatAxis",
     [](OnnxFile& f) {
       f.Add(OnnxNode("Concat", {"x", "x"}, "out").Int("axis", 2));
     },
     kUnimplemented, "axis 2 is not supported, only that of the channels"},
    {"Blocksize",
     [](OnnxFile& f) { f.Add(OnnxNode("DepthToSpace", {"x"}, "out").Int("blocksize", 0)); },
     kInvalid, "blocksize is 0, outside 1..16"},
    {"Shuffle",
     [](OnnxFile& f) { f.Add(OnnxNode("DepthToSpace", {"x"}, "out").Int("blocksize", 2)); },
     kInvalid, "cannot shuffle 3 channels by 2x2"},
    {"Scales",
     [](OnnxFile& f) {
       f.Floats("s", {4}, {1, 1, 1.5f, 1.5f}).Add({"Resize", {"x", "", "s"}, "out"});
     },
     kUnimplemented, "scales [1, 1, 1.5, 1.5] are not supported, must be [1, 1, f, f]"},
    {"PadChannels",
     [](OnnxFile& f) {
       f.Ints("p", {0, 1, 1, 1, 0, 1, 1, 1}).Add({"Pad", {"x", "p"}, "out"});
     },
     kUnimplemented, "pads [0, 1, 1, 1, 0, 1, 1, 1] are not supported, must be [0, 0, p, p, 0"},
    {"PadMode",
     [](OnnxFile& f) {
       f.Ints("p", {0, 0, 1, 1, 0, 0, 1, 1})
           .Add(OnnxNode("Pad", {"x", "p"}, "out").String("mode", "wrap"));
     },
     kUnimplemented, "mode 'wrap' is not supported, only constant, edge and reflect"},
    {"PadLimit",
     [](OnnxFile& f) {
       f.Ints("p", {0, 0, 1025, 1025, 0, 0, 1025, 1025}).Add({"Pad", {"x", "p"}, "out"});
     },
     kUnimplemented, "with at most 1024"},
    {"SliceSteps",
     [](OnnxFile& f) {
       f.Add(OnnxNode("Slice", {"x"}, "out")
                 .Ints("starts", {1, 1})
                 .Ints("ends", {-1, -1})
                 .Ints("axes", {2, 3})
                 .Ints("steps", {2, 2}));
     },
     kUnimplemented, "steps [2, 2] are not supported"},
    {"SliceChannelsAndRows",
     [](OnnxFile& f) {
       f.Add(OnnxNode("Slice", {"x"}, "out")
                 .Ints("starts", {1, 1})
                 .Ints("ends", {2, -1})
                 .Ints("axes", {1, 2}));
     },
     kUnimplemented, "output 'out' is an unfinished crop of one axis"},
    {"SliceNothing",
     [](OnnxFile& f) {
       f.Add(OnnxNode("Slice", {"x"}, "out")
                 .Ints("starts", {2})
                 .Ints("ends", {-1})
                 .Ints("axes", {1}));
     },
     kInvalid, "takes the channels from 2 to before -1 of 3, which are none"},
    {"LayerNormalizationOfPlanes",
     [](OnnxFile& f) {
       f.Floats("s", {3}, {1, 1, 1}).Add({"LayerNormalization", {"x", "s"}, "out"});
     },
     kUnimplemented, "is only supported along the channels, between transpositions"},
    {"LayerNormalizationAxis",
     [](OnnxFile& f) {
       f.Floats("s", {3}, {1, 1, 1})
           .Add(OnnxNode("Transpose", {"x"}, "a").Ints("perm", {0, 2, 3, 1}))
           .Add(OnnxNode("LayerNormalization", {"a", "s"}, "out").Int("axis", 1));
     },
     kUnimplemented, "axis 1 is not supported, only that of the channels"},
    {"ChannelsStayLast",
     [](OnnxFile& f) {
       f.Add(OnnxNode("Transpose", {"x"}, "a").Ints("perm", {0, 2, 3, 1}))
           .Add({"Relu", {"a"}, "out"});
     },
     kUnimplemented, "output 'out' is rearranged to other than planes"},
    {"CastToInt", [](OnnxFile& f) { f.Add(OnnxNode("Cast", {"x"}, "out").Int("to", 7)); },
     kUnimplemented, "to int64 is not supported, only from one type of float to another"},
    {"ReduceAxes",
     [](OnnxFile& f) { f.Add(OnnxNode("ReduceMean", {"x"}, "out").Ints("axes", {2})); },
     kUnimplemented, "axes [2] are not supported, only height and width"},
    {"GemmOfPlanes",
     [](OnnxFile& f) {
       f.Floats("w", {3, 3}, Ramp(9)).Add({"Gemm", {"x", "w"}, "out"});
     },
     kUnimplemented, "must follow a global pooling that was made flat"},
    {"IntsForFloats",
     [](OnnxFile& f) {
       f.Add({"Add", {"x", "i"}, "out"});
     },
     kUnimplemented, "a constant of 2 is not supported"},
    {"BoundOfTwo",
     [](OnnxFile& f) {
       f.Floats("b", {2}, {0, 1}).Add({"Clip", {"x", "b"}, "out"});
     },
     kInvalid, "has a bound of 2, must be one number"},
    {"LongNames",
     [](OnnxFile& f) {
       OnnxNode node("Relu", {std::string(5000, 'q')}, "out");
       node.proto().set_name(std::string(5000, 'n'));
       f.Add(node);
     },
     kInvalid, "nnn...' (Relu): reads 'qqq"},
};

INSTANTIATE_TEST_SUITE_P(Defects, OnnxErrorTest, ::testing::ValuesIn(kFileDefects),
                         [](const auto& info) { return info.param.name; });

TEST(OnnxLoaderTest, MessagesStayShort) {
  OnnxFile file;
  OnnxNode node(std::string(5000, 'o'), {"x"}, "out");
  node.proto().set_name(std::string(5000, 'n'));
  EXPECT_LT(Parse(file.Add(node)).status().message().size(), 600u);
}

TEST(OnnxLoaderTest, CutShortAnywhereIsAnError) {
  OnnxFile file = WithConv(12).Floats("s", {}, {2}).Add({"Mul", {"y", "s"}, "z"});
  file.Add(OnnxNode("DepthToSpace", {"z"}, "out").Int("blocksize", 2));
  const std::string bytes = file.bytes();
  ASSERT_TRUE(ParseOnnx(bytes).ok());
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(ParseOnnx(bytes.substr(0, length)).ok()) << length;
  }
}

// A few bytes of file that would be gigabytes of messages.
TEST(OnnxLoaderTest, RefusesMoreFieldsThanItsLimit) {
  std::string nodes;
  for (size_t i = 0; i <= kMaxOnnxFields / 2; ++i) nodes.append("\x0a\x02\x0a", 3).push_back('\0');
  std::string bytes("\x08\x08\x3a", 3);  // version, then a graph of this many bytes
  for (size_t length = nodes.size(); length > 0; length >>= 7) {
    bytes.push_back(static_cast<char>((length & 127) | (length > 127 ? 128 : 0)));
  }
  bytes += nodes;
  const auto network = ParseOnnx(bytes);
  EXPECT_EQ(network.status(), absl::ResourceExhaustedError(
                                  "has more than 4194304 fields and small numbers, the limit"));
}

TEST(OnnxLoaderTest, IsRecognisedByItsFirstBytes) {
  EXPECT_TRUE(LooksLikeOnnx(OnnxFile().bytes()));
  EXPECT_TRUE(LooksLikeOnnx(std::string("\x08\x03\x12\x0bOnnxMLTools", 15)));
  for (const char* other : {"", "\x08", "7767517\n", "[{\"class", "PK\x03\x04", "\x89PNG\r\n"}) {
    EXPECT_FALSE(LooksLikeOnnx(other)) << other;
  }
}

// The same network in both formats, from two projects: ncnn's has half floats.
TEST(SharedModelsTest, OnnxAndNcnnAgree) {
  const std::filesystem::path folder = test::SharedFolder() / "models";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no models under " << folder;
  const auto onnx = LoadNetworkFile(folder / "waifu2x-upconv_7-art-onnx/scale2.0x_model.onnx");
  ASSERT_TRUE(onnx.ok()) << onnx.status();
  const auto ncnn = LoadNetworkFile(folder / "waifu2x-upconv_7-art/scale2.0x_model.param");
  ASSERT_TRUE(ncnn.ok()) << ncnn.status();
  ASSERT_EQ(OpsOf(*onnx), OpsOf(*ncnn));
  EXPECT_EQ(onnx->scale, 2);
  EXPECT_EQ(onnx->pad_px, 7);
  for (size_t i = 1; i < onnx->layers.size(); ++i) {
    const Layer& a = onnx->layers[i];
    const Layer& b = ncnn->layers[i];
    EXPECT_EQ(a.activation, b.activation);
    ASSERT_EQ(a.weights.size(), b.weights.size());
    for (size_t n = 0; n < a.weights.size(); ++n) {
      ASSERT_NEAR(a.weights[n], b.weights[n], 1e-3 * std::abs(a.weights[n]) + 1e-7) << i;
    }
  }
}

}  // namespace
}  // namespace upscaled
