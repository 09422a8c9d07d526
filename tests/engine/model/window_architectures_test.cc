// Networks of attention and of samples between pixels, by hand-written tensors; pytorch_test
// compares what they compute.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/architecture.h"
#include "engine/model/op.h"
#include "engine/model/tensors/safetensors.h"
#include "gtest/gtest.h"
#include "tests/engine/model/loader_checks.h"
#include "tests/engine/model/published_shapes.h"
#include "tests/engine/model/weights_files.h"

namespace upscaled::window_architectures {  // whose names other tests of this program have too
namespace {

using test::ConvShapes;
using test::Shapes;
using test::operator+;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

absl::StatusOr<Network> Build(const Shapes& shapes) {
  const auto file = ParseSafetensors(test::SafetensorsOf(shapes));
  EXPECT_TRUE(file.ok()) << file.status();
  return BuildNetwork(**file, "");
}

int64_t CountOf(const Network& network, Op op) {
  return std::ranges::count(network.layers, op, &Layer::op);
}

// With another shape of one tensor.
Shapes With(Shapes shapes, const std::string& name, const std::vector<int64_t>& shape) {
  for (auto& tensor : shapes) {
    if (tensor.name == name) tensor.shape = shape;
  }
  return shapes;
}

Shapes LinearShapes(const std::string& name, int64_t out, int64_t in) {
  return {{name + ".weight", {out, in}}, {name + ".bias", {out}}};
}

Shapes NormShapes(const std::string& name, int64_t channels) {
  return {{name + ".weight", {channels}}, {name + ".bias", {channels}}};
}

// The frame of a network x2 of 8 channels and one group.
Shapes Frame(const Shapes& group) {
  return ConvShapes("conv_first", 8, 3, 3) + NormShapes("patch_embed.norm", 8) + group +
         ConvShapes("layers.0.conv", 8, 8, 3) + NormShapes("norm", 8) +
         ConvShapes("conv_after_body", 8, 8, 3) + ConvShapes("upsample.0", 12, 8, 3);
}

const std::string kBlock = "layers.0.residual_group.blocks.0.";
const std::string kAttn = kBlock + "attn.";

Shapes SrFormer(int64_t window, int blocks = 1) {
  Shapes shapes;
  for (int i = 0; i < blocks; ++i) {
    const std::string block = absl::StrCat("layers.0.residual_group.blocks.", i, ".");
    const int64_t side = window - 1;
    shapes = shapes + NormShapes(block + "norm1", 8) + NormShapes(block + "norm2", 8) +
             Shapes{{block + "attn.relative_position_bias_table", {side * side, 2}}} +
             LinearShapes(block + "attn.q", 8, 8) + LinearShapes(block + "attn.kv", 4, 8) +
             LinearShapes(block + "attn.proj", 8, 8) + LinearShapes(block + "mlp.fc1", 16, 8) +
             ConvShapes(block + "mlp.dwconv.depthwise_conv.0", 16, 1, 5) +
             LinearShapes(block + "mlp.fc2", 8, 16);
  }
  return Frame(shapes);
}

TEST(SrFormerTest, AttendsAmongBlocksOfPixels) {
  const auto network = Build(SrFormer(4, 2));
  ASSERT_TRUE(network.ok()) << network.status();
  EXPECT_EQ(network->architecture, "srformer");
  EXPECT_EQ(network->scale, 2);
  EXPECT_EQ(CountOf(*network, Op::kWindowAttention), 2);
  EXPECT_FALSE(ReadsAnywhere(*network));
}

TEST(SrFormerTest, OddHalvesOfWindowsReadAcrossTheImage) {
  EXPECT_TRUE(ReadsAnywhere(*Build(SrFormer(6, 2))));
  EXPECT_FALSE(ReadsAnywhere(*Build(SrFormer(6, 1))));
}

TEST(SrFormerTest, Errors) {
  const Shapes shapes = SrFormer(4);
  ExpectError(Build(With(shapes, kAttn + "kv.weight", {5, 8})), kInvalid, "");
  ExpectError(Build(With(With(shapes, kAttn + "kv.weight", {5, 8}), kAttn + "kv.bias", {5})),
              kInvalid, "gives 5 channels, must give 4");
  ExpectError(Build(With(With(shapes, kAttn + "q.weight", {7, 8}), kAttn + "q.bias", {7})),
              kInvalid, "gives 7 channels, must give 8");
  const std::string table = kAttn + "relative_position_bias_table";
  ExpectError(Build(With(shapes, table, {10, 2})), kInvalid, "has 10 rows");
  ExpectError(Build(With(shapes, table, {9, 3})), kInvalid, "is of 3 heads for 8 channels");
  ExpectError(Build(With(shapes, table, {9})), kInvalid, "must have 2 axes");
  ExpectError(Build(With(shapes, kBlock + "mlp.dwconv.depthwise_conv.0.weight", {16, 2, 5, 5})),
              kInvalid, "square kernel");
}

// Weights that are laid out for blocks are counted before any are read.
TEST(SrFormerTest, WideProjectionsAreRefused) {
  Shapes shapes = With(SrFormer(4), "conv_first.weight", {2504, 3, 3, 3});
  for (const std::string& name :
       {std::string("conv_first.bias"), std::string("patch_embed.norm.weight"),
        std::string("patch_embed.norm.bias"), kBlock + "norm1.weight", kBlock + "norm1.bias"}) {
    shapes = With(shapes, name, {2504});
  }
  ExpectError(Build(shapes), kInvalid, "makes 100320256 weights, the limit is 100000000");
}

Shapes Swin2Sr(int64_t side, int64_t hidden) {
  return Frame(NormShapes(kBlock + "norm1", 8) + NormShapes(kBlock + "norm2", 8) +
               Shapes{{kAttn + "logit_scale", {2, 1, 1}},
                      {kAttn + "q_bias", {8}},
                      {kAttn + "v_bias", {8}},
                      {kAttn + "qkv.weight", {24, 8}},
                      {kAttn + "relative_coords_table", {1, side, side, 2}},
                      {kAttn + "relative_position_index", {4, 4}},
                      {kAttn + "cpb_mlp.2.weight", {2, hidden}}} +
               LinearShapes(kAttn + "cpb_mlp.0", hidden, 2) + LinearShapes(kAttn + "proj", 8, 8) +
               LinearShapes(kBlock + "mlp.fc1", 16, 8) + LinearShapes(kBlock + "mlp.fc2", 8, 16)) +
         ConvShapes("patch_embed.proj", 8, 8, 1) + ConvShapes("layers.0.patch_embed.proj", 8, 8, 1);
}

TEST(Swin2SrTest, QueriesAndKeysAreOfLengthOne) {
  const auto network = Build(Swin2Sr(3, 16));
  ASSERT_TRUE(network.ok()) << network.status();
  EXPECT_EQ(network->architecture, "swin2sr");
  const auto norm =
      std::ranges::find_if(network->layers, [](const Layer& layer) { return layer.groups == 4; });
  ASSERT_NE(norm, network->layers.end());
  EXPECT_EQ(norm->op, Op::kPixelNorm);
  EXPECT_FLOAT_EQ(norm->weights[0], std::exp(0.5f) / 2);
  EXPECT_FLOAT_EQ(norm->weights[8], 0.5f);
  const auto attention = std::ranges::find(network->layers, Op::kWindowAttention, &Layer::op);
  // The sum over 16 values of max(0.5 * 0.5 * 2 + 0.5, 0), times a half.
  EXPECT_FLOAT_EQ(attention->weights[0], 16 / (1 + std::exp(-16 * 0.5f)));
}

TEST(Swin2SrTest, Errors) {
  const Shapes shapes = Swin2Sr(3, 16);
  ExpectError(Build(With(shapes, kAttn + "relative_coords_table", {1, 3, 4, 2})), kInvalid,
              "must have the distances within windows of 1..32");
  ExpectError(Build(With(shapes, kAttn + "relative_coords_table", {1, 65, 65, 2})), kInvalid,
              "windows of 1..32");
  ExpectError(Build(With(shapes, kAttn + "qkv.weight", {23, 8})), kInvalid,
              "gives 23 channels, must give 24");
  ExpectError(Build(With(shapes, kAttn + "logit_scale", {3, 1, 1})), kInvalid,
              "is of 3 heads for 8 channels");
  ExpectError(Build(With(shapes, kAttn + "cpb_mlp.2.weight", {2, 15})), kInvalid,
              "cpb_mlp.2.weight");
  ExpectError(Build(Swin2Sr(63, 13000)), kInvalid, "13000 x 2 products for each of 3969");
}

Shapes Scunet() {
  const auto block = [](const std::string& name, int64_t channels) {
    const int64_t half = channels / 2;
    const std::string trans = name + ".trans_block.";
    return ConvShapes(name + ".conv1_1", channels, channels, 1) +
           ConvShapes(name + ".conv1_2", channels, channels, 1) +
           Shapes{{name + ".conv_block.0.weight", {half, half, 3, 3}},
                  {name + ".conv_block.2.weight", {half, half, 3, 3}},
                  {trans + "msa.relative_position_params", {half / 32, 3, 3}}} +
           NormShapes(trans + "ln1", half) + NormShapes(trans + "ln2", half) +
           LinearShapes(trans + "msa.embedding_layer", 3 * half, half) +
           LinearShapes(trans + "msa.linear", half, half) +
           LinearShapes(trans + "mlp.0", 4 * half, half) +
           LinearShapes(trans + "mlp.2", half, 4 * half);
  };
  Shapes shapes = {{"m_head.0.weight", {64, 3, 3, 3}}, {"m_tail.0.weight", {3, 64, 3, 3}}};
  for (int i = 1; i <= 3; ++i) {
    const int64_t own = int64_t{32} << i;
    const std::string down = absl::StrCat("m_down", i), up = absl::StrCat("m_up", i);
    shapes = shapes + block(down + ".0", own) +
             Shapes{{down + ".1.weight", {2 * own, own, 2, 2}},
                    {up + ".0.weight", {2 * own, own, 2, 2}}} +
             block(up + ".1", own);
  }
  return shapes + block("m_body.0", 512);
}

TEST(ScunetTest, IsPaddedToWholeWindowsOfItsSmallestLevel) {
  const auto network = Build(Scunet());
  ASSERT_TRUE(network.ok()) << network.status();
  EXPECT_EQ(network->architecture, "scunet");
  EXPECT_EQ(network->scale, 1);
  EXPECT_EQ(network->layers[1].factor, 64);
  EXPECT_EQ(CountOf(*network, Op::kWindowAttention), 7);
}

TEST(ScunetTest, Errors) {
  const std::string table = "m_body.0.trans_block.msa.relative_position_params";
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{3, 3, 3}, {8, 3, 5}, {8, 65, 65}, {8, 4, 4}, {0, 3, 3}}) {
    ExpectError(Build(With(Scunet(), table, shape)), kInvalid, "must be a head for every 32");
  }
  ExpectError(Build(With(Scunet(), "m_head.0.weight", {64, 2, 3, 3})), kInvalid, "takes 2 planes");
}

// One block of 8 channels and windows of 2 pixels, for x2.
Shapes OmniSr() {
  const std::string group = "residual_layer.0.", block = group + "residual_layer.0.layer.";
  const auto plain = [](const std::string& name, int64_t out, int64_t in, int64_t side) {
    return Shapes{{name + ".weight", {out, in, side, side}}};
  };
  Shapes shapes =
      ConvShapes(block + "0.fn.0", 8, 8, 1) + ConvShapes(block + "0.fn.2", 8, 1, 3) +
      Shapes{{block + "0.fn.4.gate.1.weight", {2, 8}}, {block + "0.fn.4.gate.3.weight", {8, 2}}} +
      ConvShapes(block + "0.fn.5", 8, 8, 1);
  for (const char* part : {"2", "8"}) {
    const std::string name = block + part;
    shapes = shapes + NormShapes(name + ".norm", 8) +
             Shapes{{name + ".fn.to_qkv.weight", {24, 8}},
                    {name + ".fn.to_out.0.weight", {8, 8}},
                    {name + ".fn.rel_pos_bias.weight", {9, 4}}};
  }
  for (const char* part : {"5", "11"}) {
    const std::string name = block + part;
    shapes = shapes + NormShapes(name + ".norm", 8) +
             Shapes{{name + ".fn.temperature", {4, 1, 1}}} + plain(name + ".fn.qkv", 24, 8, 1) +
             plain(name + ".fn.qkv_dwconv", 24, 1, 3) + plain(name + ".fn.project_out", 8, 8, 1);
  }
  for (const char* part : {"4", "6", "10", "12"}) {
    const std::string name = block + part;
    shapes = shapes + NormShapes(name + ".norm", 8) + plain(name + ".fn.project_in", 16, 8, 1) +
             plain(name + ".fn.dwconv", 16, 1, 3) + plain(name + ".fn.project_out", 8, 8, 1);
  }
  const std::string esa = group + "esa.";
  return shapes + ConvShapes(group + "residual_layer.1", 8, 8, 1) +
         ConvShapes(esa + "conv1", 6, 8, 1) + ConvShapes(esa + "conv_f", 6, 6, 1) +
         ConvShapes(esa + "conv2", 6, 6, 3) + ConvShapes(esa + "conv3", 6, 6, 3) +
         ConvShapes(esa + "conv4", 8, 6, 1) + ConvShapes("input", 8, 3, 3) +
         ConvShapes("output", 8, 8, 3) + ConvShapes("up.0", 12, 8, 3);
}

const std::string kOmniBlock = "residual_layer.0.residual_layer.0.layer.";

TEST(OmniSrTest, AttendsInWindowsAndInGrids) {
  const auto network = Build(OmniSr());
  ASSERT_TRUE(network.ok()) << network.status();
  EXPECT_EQ(network->architecture, "omnisr");
  EXPECT_EQ(network->scale, 2);
  EXPECT_EQ(network->layers[1].factor, 2);  // of the image's padding
  EXPECT_EQ(CountOf(*network, Op::kWindowAttention), 2);
  EXPECT_EQ(CountOf(*network, Op::kPartAttention), 2);
  EXPECT_EQ(CountOf(*network, Op::kGridToWindows), 1);
  EXPECT_TRUE(ReadsAnywhere(*network));
}

TEST(OmniSrTest, Errors) {
  const std::string table = kOmniBlock + "2.fn.rel_pos_bias.weight";
  ExpectError(Build(With(OmniSr(), table, {10, 4})), kInvalid, "has 10 rows");
  ExpectError(Build(With(OmniSr(), table, {9, 3})), kInvalid, "is of 3 heads for 8 channels");
  ExpectError(Build(With(OmniSr(), table, {9, 0})), kInvalid, "is of 0 heads for 8 channels");
  ExpectError(Build(With(OmniSr(), kOmniBlock + "8.fn.rel_pos_bias.weight", {25, 4})), kInvalid,
              "must be of 9x4");
  ExpectError(Build(With(OmniSr(), kOmniBlock + "5.fn.temperature", {3, 1, 1})), kInvalid,
              "is of 3 heads for 8 channels");
  ExpectError(Build(With(OmniSr(), kOmniBlock + "2.fn.to_qkv.weight", {25, 8})), kInvalid, "25");
  ExpectError(Build(With(OmniSr(), kOmniBlock + "4.fn.project_in.weight", {15, 8, 1, 1})), kInvalid,
              "dwconv");
  ExpectError(Build(With(OmniSr(), "up.0.weight", {13, 8, 3, 3})), kInvalid, "gives 13 channels");
  ExpectError(Build(OmniSr() + Shapes{{"residual_layer.0.more", {1}}}), kInvalid, "has no place");
}

// Values are all one half: places of samples of scale 1.
Shapes WithDySample(int64_t offsets, int64_t places) {
  Shapes shapes = test::Plksr(true, true);
  return With(With(shapes, "feats.3.weight", {3, 8, 3, 3}), "feats.3.bias", {3}) +
         ConvShapes("to_img.offset", offsets, 3, 1) +
         Shapes{{"to_img.scope.weight", {offsets, 3, 1, 1}},
                {"to_img.init_pos", {1, places, 1, 1}}} +
         ConvShapes("to_img.end_conv", 3, 3, 1);
}

TEST(DySampleTest, ReadsTheImageAnywhere) {
  const auto network = Build(WithDySample(6, 6));
  ASSERT_TRUE(network.ok()) << network.status();
  EXPECT_EQ(network->architecture, "plksr");
  EXPECT_TRUE(ReadsAnywhere(*network));
  const auto sample = std::ranges::find(network->layers, Op::kSample, &Layer::op);
  ASSERT_NE(sample, network->layers.end());
  EXPECT_EQ(sample->groups, 3);
  EXPECT_EQ(sample->factor, 1);
}

TEST(DySampleTest, Errors) {
  ExpectError(Build(WithDySample(8, 6)), kInvalid, "gives 8 channels, must give 6");
  ExpectError(Build(WithDySample(7, 7)), kInvalid, "of 7 values has the places of samples of no");
  ExpectError(Build(WithDySample(4, 4)), kInvalid, "cannot share 3 channels among 2 groups");
  ExpectError(Build(With(WithDySample(6, 6), "to_img.init_pos", {6})), kInvalid, "axes");
  ExpectError(Build(With(WithDySample(6, 6), "to_img.init_pos", {1, 0, 1, 1})), kInvalid,
              "of 0 values");
}

}  // namespace
}  // namespace upscaled::window_architectures
