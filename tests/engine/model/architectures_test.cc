// Architectures by hand-written tensors; pytorch_test compares what they compute.
#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/model/architectures/architecture.h"
#include "engine/model/architectures/espcn.h"
#include "engine/model/tensors/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/model/loader_checks.h"
#include "tests/engine/model/published_shapes.h"
#include "tests/engine/model/weights_files.h"

namespace upscaled {
namespace {

using test::ArtCnn;
using test::Compact;
using test::ConvShapes;
using test::Dis;
using test::Esrgan;
using test::Mosr;
using test::Plksr;
using test::Shapes;
using test::Span;
using test::operator+;
using ::testing::ElementsAre;

absl::StatusOr<Network> Build(const Shapes& shapes, std::string_view architecture = "") {
  const auto file = ParseSafetensors(test::SafetensorsOf(shapes));
  EXPECT_TRUE(file.ok()) << file.status();
  return BuildNetwork(**file, architecture);
}

std::vector<Op> Ops(const absl::StatusOr<Network>& network) {
  EXPECT_TRUE(network.ok()) << network.status();
  std::vector<Op> ops;
  if (network.ok()) {
    for (const Layer& layer : network->layers) ops.push_back(layer.op);
  }
  return ops;
}

TEST(CompactTest, IsRecognised) {
  const auto network = Build(Compact(2, true));
  EXPECT_THAT(Ops(network), ElementsAre(Op::kInput, Op::kConv, Op::kConv, Op::kPixelShuffle,
                                        Op::kResizeNearest, Op::kAdd));
  EXPECT_EQ(network->scale, 2);
  EXPECT_EQ(network->layers[1].activation, Activation::kPRelu);
  EXPECT_EQ(network->layers[1].slope.size(), 4u);
  EXPECT_THAT(Ops(Build(Compact(1, true))),
              ElementsAre(Op::kInput, Op::kConv, Op::kConv, Op::kAdd));
}

TEST(EspcnTest, TensorsSayWhatTheNetworkIs) {
  const Shapes shapes = ConvShapes("conv1", 4, 3, 3) + ConvShapes("conv2", 12, 4, 3);
  const auto network = Build(shapes);
  EXPECT_THAT(Ops(network), ElementsAre(Op::kInput, Op::kConv, Op::kConv, Op::kPixelShuffle));
  EXPECT_EQ(network->scale, 2);
  EXPECT_EQ(network->pad_px, 2);
  EXPECT_EQ(network->layers[1].activation, Activation::kLeakyRelu);
  const auto tensors = EspcnTensors(*network);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->size(), shapes.size());
  for (size_t i = 0; i < shapes.size(); ++i) {
    EXPECT_EQ((*tensors)[i].name, shapes[i].name);
    EXPECT_EQ((*tensors)[i].shape, shapes[i].shape);
    EXPECT_EQ((*tensors)[i].values, std::vector<float>((*tensors)[i].values.size(), 0.5f));
  }
  EXPECT_FALSE(Build(shapes + ConvShapes("other", 4, 3, 3)).ok());
  EXPECT_THAT(
      std::string(
          Build(ConvShapes("conv1", 4, 3, 3) + ConvShapes("conv2", 13, 4, 3)).status().message()),
      ::testing::HasSubstr("gives 13 channels"));
}

TEST(EspcnTest, NamesSayThatTheImageIsAdded) {
  const Shapes shapes = ConvShapes("residual.conv1", 4, 3, 3) +
                        Shapes{{"residual.prelu1.weight", {4}}} +
                        ConvShapes("residual.conv2", 12, 4, 3);
  const auto network = Build(shapes);
  EXPECT_THAT(Ops(network), ElementsAre(Op::kInput, Op::kConv, Op::kConv, Op::kPixelShuffle,
                                        Op::kCrop, Op::kResizeNearest, Op::kAdd));
  EXPECT_EQ(network->scale, 2);
  EXPECT_EQ(network->pad_px, 2);
  EXPECT_EQ(network->layers[1].activation, Activation::kPRelu);
  EXPECT_EQ(network->layers[1].slope, std::vector<float>(4, 0.5f));
  const auto tensors = EspcnTensors(*network);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->size(), shapes.size());
  const std::vector<std::string> names = {"residual.conv1.weight", "residual.conv1.bias",
                                          "residual.prelu1.weight", "residual.conv2.weight",
                                          "residual.conv2.bias"};
  for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ((*tensors)[i].name, names[i]);

  const auto refusal = [&](int changed, auto change) {
    Network other = *network;
    change(other.layers[changed]);
    return EspcnTensors(other).status().code();
  };
  const auto unimplemented = absl::StatusCode::kUnimplemented;
  EXPECT_EQ(refusal(2, [](Layer& layer) { layer.activation = Activation::kPRelu; }), unimplemented);
  EXPECT_EQ(refusal(4, [](Layer& layer) { layer.crop_px = 1; }), unimplemented);
  EXPECT_EQ(refusal(5, [](Layer& layer) { layer.op = Op::kResizeBilinear; }), unimplemented);
  EXPECT_EQ(refusal(6, [](Layer& layer) { layer.inputs = {5, 3}; }), unimplemented);
  Network longer = *network;
  longer.layers.push_back({.op = Op::kActivation, .inputs = {6}});
  EXPECT_EQ(EspcnTensors(longer).status().code(), unimplemented);
}

TEST(EspcnTest, RefusesTensorsThatDoNotFit) {
  const auto refusal = [](const Shapes& slopes, int last_kernel_px) {
    return std::string(Build(ConvShapes("residual.conv1", 4, 3, 3) + slopes +
                             ConvShapes("residual.conv2", 12, 4, last_kernel_px))
                           .status()
                           .message());
  };
  using ::testing::HasSubstr;
  EXPECT_EQ(refusal({{"residual.prelu1.weight", {1}}}, 3), "");
  EXPECT_THAT(refusal({{"residual.prelu1.weight", {5}}}, 3), HasSubstr("residual.prelu1.weight"));
  EXPECT_THAT(refusal({{"residual.prelu1.weight", {2, 2}}}, 3), HasSubstr("axes"));
  EXPECT_THAT(refusal({}, 5), HasSubstr("residual.conv2.weight' has kernels of 5x5, not 3x3"));
  EXPECT_FALSE(refusal({{"residual.prelu2.weight", {12}}}, 3).empty());
  EXPECT_FALSE(refusal(ConvShapes("conv1", 4, 3, 3), 3).empty());
}

TEST(EspcnTest, OtherNetworksAreNotItsTensors) {
  const Network chain = *Build(ConvShapes("conv1", 4, 3, 3) + ConvShapes("conv2", 12, 4, 3));
  const auto refusal = [&](int changed, auto change) {
    Network network = chain;
    change(network.layers[changed]);
    return EspcnTensors(network).status().code();
  };
  const auto unimplemented = absl::StatusCode::kUnimplemented;
  EXPECT_EQ(refusal(1, [](Layer& layer) { layer.slope = {0.2f}; }), unimplemented);
  EXPECT_EQ(refusal(1, [](Layer& layer) { layer.padding_px = 1; }), unimplemented);
  EXPECT_EQ(refusal(2, [](Layer& layer) { layer.inputs = {0}; }), unimplemented);
  EXPECT_EQ(refusal(2, [](Layer& layer) { layer.activation = Activation::kRelu; }), unimplemented);
  EXPECT_EQ(refusal(3, [](Layer& layer) { layer.op = Op::kResizeNearest; }), unimplemented);
  Network image_alone = chain;
  image_alone.layers.resize(1);
  EXPECT_EQ(EspcnTensors(image_alone).status().code(), unimplemented);
}

TEST(CompactTest, OneSlopeStandsForAllChannels) {
  Shapes shapes = Compact(2, true);
  shapes[2].shape = {1};
  const auto network = Build(shapes);
  ASSERT_TRUE(network.ok()) << network.status();
  EXPECT_EQ(network->layers[1].slope, std::vector<float>(4, 0.5f));
}

TEST(CompactTest, ActivationIsNamedWhereTheTensorsDoNotTell) {
  ExpectError(Build(Compact(2, false)), absl::StatusCode::kUnimplemented,
              "name 'compact-relu' or 'compact-leakyrelu' as the architecture");
  const auto relu = Build(Compact(2, false), "compact-relu");
  ASSERT_TRUE(relu.ok()) << relu.status();
  EXPECT_EQ(relu->layers[1].activation, Activation::kRelu);
  const auto leaky = Build(Compact(2, false), "compact-leakyrelu");
  ASSERT_TRUE(leaky.ok()) << leaky.status();
  EXPECT_EQ(leaky->layers[1].slope, std::vector<float>{0.1f});
}

TEST(CompactTest, Errors) {
  ExpectError(Build(Compact(2, true) + Shapes{{"extra", {1}}}), absl::StatusCode::kInvalidArgument,
              "as compact: tensor 'extra' of 1 has no place in this architecture");
  ExpectError(Build(Compact(2, false), "compact"), absl::StatusCode::kInvalidArgument,
              "lacks the tensor 'body.1.weight'");
  Shapes shapes = Compact(2, true);
  shapes[0].shape[1] = 1;
  ExpectError(Build(shapes), absl::StatusCode::kInvalidArgument,
              "'body.0.weight' of 4x1x3x3 must be a square kernel of 1..31 pixels for 3 channels");
  shapes = Compact(2, true);
  int biases = 0;
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (!shapes[i].name.ends_with(".bias")) continue;
    ++biases;
    Shapes some = shapes;
    some.erase(some.begin() + static_cast<ptrdiff_t>(i));
    ExpectError(Build(some), absl::StatusCode::kInvalidArgument,
                absl::StrCat("lacks the tensor '", shapes[i].name, "', though it has 'body."));
  }
  EXPECT_GE(biases, 2);
  shapes[2].shape = {5};
  ExpectError(Build(shapes), absl::StatusCode::kInvalidArgument, "of 5 must be of 4");
  shapes = Compact(2, true);
  shapes[3].shape[0] = 13;
  ExpectError(Build(shapes), absl::StatusCode::kInvalidArgument, "gives 13 channels");
  ExpectError(Build(Compact(2, true), "esrgan"), absl::StatusCode::kInvalidArgument,
              "lacks the tensors of the first dense block");
  ExpectError(Build(Compact(2, true), "compact2"), absl::StatusCode::kInvalidArgument,
              "there is no architecture 'compact2', there are 'esrgan', 'compact'");
}

TEST(EsrganTest, ScaleAndAlignmentFollowFromTheShapes) {
  struct Expected {
    int planes, ups, scale, align_px;
  };
  for (const Expected& e : {Expected{3, 2, 4, 1}, Expected{3, 1, 2, 1}, Expected{3, 0, 1, 1},
                            Expected{12, 2, 2, 2}, Expected{48, 2, 1, 4}}) {
    const auto network = Build(Esrgan(e.planes, e.ups));
    ASSERT_TRUE(network.ok()) << network.status();
    EXPECT_EQ(network->scale, e.scale);
    EXPECT_EQ(network->align_px, e.align_px);
  }
}

// In the oldest spelling, for x1.
Shapes OldEsrgan(bool plus) {
  Shapes shapes = ConvShapes("model.0", 4, 3, 3);
  for (int dense = 1; dense <= 3; ++dense) {
    const std::string name = absl::StrCat("model.1.sub.0.RDB", dense, ".conv");
    for (int i = 1; i <= 5; ++i) {
      shapes = shapes + ConvShapes(absl::StrCat(name, i, ".0"), i < 5 ? 2 : 4, 4 + 2 * (i - 1), 3);
    }
    if (plus) shapes = shapes + Shapes{{name + "1x1.weight", {2, 4, 1, 1}}};
  }
  return shapes + ConvShapes("model.1.sub.1", 4, 4, 3) + ConvShapes("model.2", 4, 4, 3) +
         ConvShapes("model.4", 3, 4, 3);
}

TEST(EsrganTest, PlusAddsTwiceInEachDenseBlock) {
  const auto adds = [](const std::vector<Op>& ops) {
    return std::count(ops.begin(), ops.end(), Op::kAdd);
  };
  EXPECT_EQ(adds(Ops(Build(OldEsrgan(false)))), 3 + 1 + 1);
  EXPECT_EQ(adds(Ops(Build(OldEsrgan(true)))), 3 * 3 + 1 + 1);
}

TEST(EsrganTest, BlocksOfPixelsAreTakenInTheOrderOfPixelUnshuffle) {
  const auto network = Build(Esrgan(12, 2));
  ASSERT_TRUE(network.ok()) << network.status();
  const Layer& unshuffle = network->layers[1];
  ASSERT_EQ(unshuffle.stride_px, 2);
  ASSERT_EQ(unshuffle.weights.size(), 12u * 3 * 2 * 2);
  for (int out = 0; out < 12; ++out) {  // channel out / 4, row out / 2 % 2, column out % 2
    for (int tap = 0; tap < 12; ++tap) {
      EXPECT_EQ(unshuffle.weights[out * 12 + tap], out == tap ? 1.0f : 0.0f) << out << " " << tap;
    }
  }
}

TEST(EsrganTest, Errors) {
  ExpectError(Build(Esrgan(1, 2)), absl::StatusCode::kUnimplemented, "takes 1 planes");
  Shapes shapes = Esrgan(3, 2);
  shapes.erase(shapes.begin() + 8);
  ExpectError(Build(shapes), absl::StatusCode::kInvalidArgument,
              "lacks the tensor 'body.0.rdb1.conv4.weight'");
}

TEST(SpanTest, FourConvolutionsAreOne) {
  const auto network = Build(Span(1, false));
  ASSERT_TRUE(network.ok()) << network.status();
  EXPECT_EQ(network->scale, 2);
  // From 3 channels to 6, 2 and 1; every value is a half.
  const Layer& conv = network->layers[1];
  const float plain = 0.5f * 0.5f * 0.5f * 2 * 6;
  for (int channel = 0; channel < 3; ++channel) {
    for (int tap = 0; tap < 9; ++tap) {
      EXPECT_FLOAT_EQ(conv.weights[channel * 9 + tap], tap == 4 ? plain + 0.5f : plain);
    }
  }
  const float second = 6 * 9 * 0.25f + 0.5f;  // bias of the first two
  EXPECT_FLOAT_EQ(conv.bias[0], 2 * 0.5f * second + 0.5f + 0.5f);
  EXPECT_EQ(Build(Span(1, true))->layers[1].op, Op::kAffine);
}

TEST(SpanTest, Errors) {
  ExpectError(Build(Span(129, false)), absl::StatusCode::kInvalidArgument,
              "to 129, must be 1..128 outside");
}

TEST(ArtCnnTest, OfLumaTheColourIsResizedBeside) {
  const auto rgb = Build(ArtCnn(3, 4));
  ASSERT_TRUE(rgb.ok()) << rgb.status();
  EXPECT_EQ(rgb->scale, 4);
  EXPECT_EQ(rgb->layers.back().op, Op::kPixelShuffle);
  const auto luma = Build(ArtCnn(1, 4));
  ASSERT_TRUE(luma.ok()) << luma.status();
  EXPECT_EQ(luma->scale, 4);
  EXPECT_EQ(luma->pad_px, 0);
  EXPECT_EQ(luma->layers.back().op, Op::kAdd);
}

TEST(ArtCnnTest, Errors) {
  ExpectError(Build(ArtCnn(1, 8)), absl::StatusCode::kUnimplemented, "resized by 8, only by 1..7");
  Shapes shapes = ArtCnn(1, 2);
  shapes[shapes.size() - 2].shape[0] = 6;
  ExpectError(Build(shapes), absl::StatusCode::kInvalidArgument,
              "gives 6 channels, must be 1 for each");
  shapes = ArtCnn(3, 2);
  shapes.erase(shapes.begin() + 2, shapes.begin() + 4);
  ExpectError(Build(shapes), absl::StatusCode::kInvalidArgument,
              "lacks the tensor 'res_block.1.weight'");
}

TEST(DisTest, ScaleFollowsFromTheStages) {
  for (const int stages : {0, 1, 2, 3}) {
    const auto network = Build(Dis(stages));
    ASSERT_TRUE(network.ok()) << network.status();
    EXPECT_EQ(network->scale, 1 << stages);
    EXPECT_EQ(network->layers[2].op, Op::kGroupedConv);
    EXPECT_EQ(network->layers[2].groups, 6);
  }
}

TEST(DisTest, Errors) {
  ExpectError(Build(Dis(5)), absl::StatusCode::kInvalidArgument, "scales by 32 or more");
  Shapes shapes = Dis(1);
  shapes.back().shape = {5};
  ExpectError(Build(shapes), absl::StatusCode::kInvalidArgument,
              "gives 24 channels, must be 5 for each");
  shapes = Dis(0);
  shapes[8].shape = {6, 2, 3, 3};
  ExpectError(Build(shapes), absl::StatusCode::kInvalidArgument,
              "'body.0.dw_conv.depthwise.weight' of 6x2x3x3 must be a square kernel");
}

TEST(PlksrTest, LargeKernelsSeeTheFirstChannels) {
  const auto plain = Build(Plksr(false, true));
  EXPECT_THAT(Ops(plain),
              ElementsAre(Op::kInput, Op::kConv, Op::kConv, Op::kConv, Op::kSlice, Op::kConv,
                          Op::kSlice, Op::kConcat, Op::kConv, Op::kMul, Op::kConv, Op::kAdd,
                          Op::kConv, Op::kPixelShuffle, Op::kResizeNearest, Op::kAdd));
  EXPECT_EQ(plain->scale, 2);
  EXPECT_EQ(plain->architecture, "plksr");
  EXPECT_EQ(plain->layers[2].activation, Activation::kGelu);
  EXPECT_EQ(plain->layers[6].first_channel, 2);
  const auto real = Build(Plksr(true, false));
  ASSERT_TRUE(real.ok()) << real.status();
  EXPECT_EQ(real->layers[2].activation, Activation::kMish);
  EXPECT_EQ(real->layers.size(), plain->layers.size() - 2);
}

TEST(PlksrTest, GroupNormIsOfTheMeansOfTheImage) {
  const Shapes norm = {{"feats.1.norm.weight", {8}}, {"feats.1.norm.bias", {8}}};
  const auto network = Build(Plksr(true, true) + norm);
  EXPECT_THAT(Ops(network),
              ElementsAre(Op::kInput, Op::kConv, Op::kConv, Op::kConv, Op::kSlice, Op::kConv,
                          Op::kSlice, Op::kConcat, Op::kConv, Op::kMul, Op::kConv, Op::kMul,
                          Op::kConcat, Op::kGlobalAveragePool, Op::kGroupNorm, Op::kAdd, Op::kConv,
                          Op::kPixelShuffle, Op::kResizeNearest, Op::kAdd));
  const Layer& layer = network->layers[14];
  EXPECT_THAT(layer.inputs, ElementsAre(10, 13));
  EXPECT_EQ(layer.groups, 4);
  EXPECT_FLOAT_EQ(layer.epsilon, 1e-5f);
  EXPECT_FALSE(Build(Plksr(true, true) + Shapes{norm[0]}).ok()) << "without a bias";
}

TEST(MosrTest, MeansOfResultsAreOneConvolution) {
  for (const bool mean_end : {false, true}) {
    const auto network = Build(Mosr(mean_end));
    ASSERT_TRUE(network.ok()) << network.status();
    EXPECT_EQ(network->scale, 2);
    EXPECT_EQ(network->layers[2].op, Op::kPixelNorm);
    const Layer& end = network->layers[network->layers.size() - 2];
    EXPECT_EQ(end.weights, std::vector<float>(12 * 4 * 9, 0.5f));
  }
  Shapes shapes = Mosr(true);
  shapes[shapes.size() - 2].shape[0] = 97;
  ExpectError(Build(shapes), absl::StatusCode::kInvalidArgument, "of 97x4x3x3 must be of 96x4x3x3");
}

// Tensors among those of published files, of an architecture that is refused.
struct Refused {
  const char* message;
  std::vector<const char*> tensors;
};

TEST(ArchitecturesTest, WhatIsMissingIsNamed) {
  const Refused kRefused[] = {
      {"ATD, which needs attention",
       {"relative_position_index_SA", "conv_first.weight", "layers.0.residual_group.td",
        "layers.0.residual_group.layers.0.norm1.weight"}},
      {"CRAFT, which needs attention",
       {"conv_first.weight", "layers.0.residual_group.hf_blocks.0.attn.temperature"}},
      {"RGT, which needs attention",
       {"conv_first.weight", "before_RG.1.weight", "layers.0.blocks.0.gamma",
        "layers.0.blocks.0.attn.qkv.weight"}},
      {"GRL, which needs attention",
       {"conv_first.weight", "norm_start.weight",
        "layers.0.blocks.0.attn.window_attn.attn_transform.logit_scale"}},
      {"FDAT, which needs attention",
       {"conv_first.weight", "groups.0.blocks.0.attn.bias", "groups.0.blocks.0.inter.cg.1.weight",
        "upsampler.MetaUpsample"}},
      {"DCTLSA, which needs attention",
       {"fea_conv.weight", "B1.body.0.transformer_body.0.blocks.0.attn.qkv.weight",
        "upsampler.0.weight"}},
      {"DITN, which needs attention",
       {"sft.weight", "UFONE.0.ITLs.0.attn.temperature", "conv_after_body.weight"}},
      {"LUDVAE, which needs random numbers",
       {"inconv.weight", "enc_1.net.0.weight", "Gauconv_q_3.m.weight", "Gauconv_p_2.m.weight"}},
      {"SAFMN, which needs max pooling to several sizes",
       {"to_feat.weight", "feats.0.norm1.weight", "feats.0.safm.mfr.0.weight",
        "feats.0.safm.aggr.weight", "to_img.0.weight"}},
      {"SeemoRe, which needs a choice of convolutions",
       {"conv_1.weight", "conv_2.weight", "norm.weight", "upsampler.0.weight",
        "body.0.local_block.norm_1.weight",
        "body.0.local_block.block.moe_layer.experts.0.conv_1.weight"}},
      {"RTMoSR, which needs an older form", {"to_feat.weight", "body.0.conv.dwconv_hw.weight"}},
  };
  for (const Refused& refused : kRefused) {
    Shapes shapes;
    for (const char* tensor : refused.tensors) shapes.push_back({tensor, {1}});
    ExpectError(Build(shapes), absl::StatusCode::kUnimplemented,
                absl::StrCat("is of the architecture ", refused.message));
  }
  ExpectError(Build({{"who.knows", {1}}}), absl::StatusCode::kUnimplemented,
              "has the tensors of no known architecture ('who.knows' and so on)");
  ExpectError(Build({}), absl::StatusCode::kUnimplemented, "no known architecture (none)");
}

// The table of count_database.py agrees with what tensors are told for.
TEST(ArchitecturesTest, MostModelsOfTheDatabaseRun) {
  std::ifstream facts(UPSCALED_MODEL_FACTS);
  int models = 0, running = 0;
  for (std::string line; std::getline(facts, line);) {
    if (line.starts_with('#')) continue;
    const std::vector<std::string> row = absl::StrSplit(line, '\t');
    ASSERT_EQ(row.size(), 3u) << line;
    models += std::stoi(row[1]);
    if (row[2] == "-") continue;
    running += std::stoi(row[1]);
    EXPECT_TRUE(CheckArchitecture(row[2]).ok()) << line;
  }
  EXPECT_EQ(models, 671);
  EXPECT_EQ(running, 632);
}

}  // namespace
}  // namespace upscaled
