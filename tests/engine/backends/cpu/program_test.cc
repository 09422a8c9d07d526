// The plan of a network in this backend's program.
#include "engine/backends/cpu/program.h"

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/backends/cpu/kernels/kernel_list.h"
#include "engine/backends/cpu/row_schedule.h"
#include "engine/backends/cpu/tile_choice.h"
#include "engine/model/without_weights.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/random_network.h"
#include "tests/support/test_image.h"

namespace upscaled::cpu {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;

constexpr int kSkip = 1, kDown = 2, kUp = 3, kCrop = 4, kSum = 5;

// Down to half the size and up again, added to its input: input, skip, down, up, crop, sum and a
// last layer.
Network SmallUnet(int channels) {
  Network network = test::InputAlone();
  network.pad_px = 4;
  network.align_px = 2;
  const auto append = [&](Layer layer) {
    layer.name = "layer" + std::to_string(network.layers.size());
    layer.in_channels = network.layers[layer.inputs[0]].out_channels;
    layer.out_channels = channels;
    const int taps = layer.kernel_px * layer.kernel_px;
    if (layer.op == Op::kConv || layer.op == Op::kConvTranspose) {
      layer.weights.assign(size_t{1} * taps * channels * layer.in_channels, 0.125f);
      layer.bias.assign(channels, 0.5f);
    }
    network.layers.push_back(layer);
  };
  append({.op = Op::kConv, .inputs = {0}});
  append({.op = Op::kConv, .inputs = {kSkip}, .kernel_px = 4, .stride_px = 2});
  append({.op = Op::kConvTranspose, .inputs = {kDown}, .kernel_px = 2, .stride_px = 2});
  append({.op = Op::kCrop, .inputs = {kSkip}, .crop_px = 1});
  append({.op = Op::kAdd, .inputs = {kUp, kCrop}});
  test::AppendConv(network, 3, 3);
  return network;
}

template <typename T>
std::vector<T> InSteps(const Program& program, T Step::*member) {
  std::vector<T> values;
  for (const Step& step : program.steps) values.push_back(step.*member);
  return values;
}

std::vector<std::string> NamesIn(const Network& network, std::string_view forced = "") {
  const auto program =
      BuildProgram(network, ListIsas().front(), forced.empty() ? nullptr : FindKernel(forced));
  EXPECT_TRUE(program.ok()) << program.status();
  std::vector<std::string> names;
  if (!program.ok()) return names;
  for (const Layer& layer : program->network.layers) names.push_back(layer.name);
  return names;
}

TEST(ProgramTest, SumsAreComputedWithTheConvolution) {
  for (const bool crop_first : {false, true}) {
    Network network = SmallUnet(16);
    if (crop_first) network.layers[kSum].inputs = {kCrop, kUp};
    EXPECT_THAT(NamesIn(network), Contains("layer3+layer4+layer5"));
  }
}

// As the bundled models end: input, body, conv, shuffle, crop, resize and sum.
Network EnlargingNetwork() {
  Network network = test::InputAlone();
  network.scale = 2;
  network.pad_px = 2;
  test::AppendConv(network, 32, 3);
  test::AppendConv(network, 12, 3);
  for (const int conv : {1, 2}) network.layers[conv].padding_px = 0;
  const auto append = [&](Layer layer) {
    layer.name = "layer" + std::to_string(network.layers.size());
    layer.in_channels = network.layers[layer.inputs[0]].out_channels;
    layer.out_channels = 3;
    network.layers.push_back(layer);
  };
  append({.op = Op::kPixelShuffle, .inputs = {2}, .factor = 2});
  append({.op = Op::kCrop, .inputs = {0}, .crop_px = 2});
  append({.op = Op::kResizeNearest, .inputs = {4}, .factor = 2});
  append({.op = Op::kAdd, .inputs = {3, 5}});
  return network;
}

TEST(ProgramTest, ShufflesAddTheEnlargedImage) {
  Network network = EnlargingNetwork();
  EXPECT_THAT(NamesIn(network),
              ElementsAre("input", "conv1", "conv2", "layer3+layer5+layer4+layer6"));
  network.layers[3].activation = Activation::kRelu;
  EXPECT_THAT(NamesIn(network), AllOf(Contains("layer3"), Contains("layer5"), Contains("layer6")));
}

// Two convolutions in halves, the second with float output for the shuffle.
TEST(ProgramTest, WhatFloatKernelsReadIsStoredAsFloats) {
  if (!HasVnni(ListIsas().front())) GTEST_SKIP() << "no AVX512_VNNI here";
  const auto program = BuildProgram(EnlargingNetwork(), ListIsas().front(),
                                    FindKernel("winograd_f4_int16"), Precision::kFast);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_THAT(InSteps(*program, &Step::half), ElementsAre(false, true, false, false));
}

TEST(ProgramTest, ActivatedSumsStayApartFromTheirConvolution) {
  Network network = SmallUnet(16);
  network.layers[kSum].activation = Activation::kRelu;
  EXPECT_THAT(NamesIn(network), AllOf(Contains("layer3"), Contains("layer4+layer5")));
}

TEST(ProgramTest, SumsOfImagesStayApartFromTheirConvolution) {
  EXPECT_THAT(NamesIn(SmallUnet(3)), AllOf(Contains("layer3"), Contains("layer4+layer5")));
}

TEST(ProgramTest, AForcedKernelKeepsItsSums) {
  EXPECT_THAT(NamesIn(SmallUnet(16), "elementwise"),
              AllOf(Contains("layer3"), Contains("layer4+layer5")));
}

TEST(ProgramTest, KernelsThatCannotAddStayApart) {
  Network network = test::InputAlone();
  test::AppendConv(network, 16, 1);
  test::AppendConv(network, 16, 3);
  network.layers.push_back(
      {.op = Op::kAdd, .name = "sum", .inputs = {1, 2}, .out_channels = 16, .in_channels = 16});
  test::AppendConv(network, 3, 1);
  EXPECT_THAT(NamesIn(network, "direct"), Contains("conv2+sum"));
  EXPECT_THAT(NamesIn(network, "naive"), AllOf(Contains("conv2"), Contains("sum")));
}

// A layer, times its mean, read by a last layer of `kernel_px` a side; `pooled`: and by another
// pooling.
bool IsScaledView(int kernel_px, Activation activation = Activation::kNone, bool pooled = false) {
  Network network = test::InputAlone();
  test::AppendConv(network, 16, 1);
  test::AppendTimesMean(network, 1);
  network.layers.back().activation = activation;
  test::AppendConv(network, 16, kernel_px);
  if (pooled) {
    test::AppendTimesMean(network, 4);
    network.layers[5].inputs = {3};
  }
  test::AppendConv(network, 3, 1);
  const auto program = BuildProgram(network, ListIsas().front(), nullptr);
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() && program->steps[program->index_of[3]].scaled_view;
}

TEST(ProgramTest, ProductsWithMeansAreLeftToReadersThatCan) {
  EXPECT_TRUE(IsScaledView(1));
  EXPECT_FALSE(IsScaledView(3)) << "a Winograd kernel";
  EXPECT_FALSE(IsScaledView(1, Activation::kRelu));
  EXPECT_FALSE(IsScaledView(1, Activation::kNone, /*pooled=*/true)) << "nothing would add it up";
}

void AppendConcat(Network& network, const std::vector<int>& parts) {
  Layer layer{.op = Op::kConcat, .name = "join", .inputs = parts};
  for (const int part : parts) layer.out_channels += network.layers[part].out_channels;
  layer.in_channels = network.layers[parts[0]].out_channels;
  network.layers.push_back(layer);
}

// Input, a layer, one of `growth` channels, both, another, all three, a last layer.
Program DenseBlock(int growth) {
  Network network = test::InputAlone();
  test::AppendConv(network, 32, 3);
  test::AppendConv(network, growth, 3);
  AppendConcat(network, {1, 2});
  test::AppendConv(network, growth, 3);
  AppendConcat(network, {1, 2, 4});
  test::AppendConv(network, 16, 3);
  auto program = BuildProgram(network, ListIsas().front(), nullptr);
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() ? *std::move(program) : Program();
}

TEST(ProgramTest, PartsAreWrittenWhereConcatenationsHaveThem) {
  const Program program = DenseBlock(16);
  EXPECT_THAT(InSteps(program, &Step::home), ElementsAre(0, 1, 5, 5, 5, 5, 6))
      << "others read the first, too";
  EXPECT_THAT(InSteps(program, &Step::home_plane), ElementsAre(0, 0, 2, 0, 3, 0, 0));
  EXPECT_THAT(InSteps(program, &Step::joined_view),
              ElementsAre(false, false, false, false, false, true, false));
  EXPECT_THAT(program.network.layers[5].inputs, ElementsAre(3, 4)) << "planes of the first";
}

TEST(ProgramTest, PartsOfBrokenPlanesAreCopied) {
  const Program program = DenseBlock(8);
  EXPECT_THAT(InSteps(program, &Step::home), ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(InSteps(program, &Step::joined_view), Each(false));
}

// (x + y) * (sigmoid(y) * 1 - 1/2); `read`: its layer that another one reads, if any.
std::string KernelOfGate(int read = -1) {
  Network network = test::InputAlone();
  test::AppendConv(network, 16, 3);
  test::AppendConv(network, 16, 3);
  const auto append = [&](Op op, std::vector<int> inputs) -> Layer& {
    Layer layer{.op = op, .name = "gate", .inputs = std::move(inputs), .out_channels = 16};
    layer.in_channels = 16;
    return network.layers.emplace_back(std::move(layer));
  };
  append(Op::kActivation, {2}).activation = Activation::kSigmoid;
  Layer& affine = append(Op::kAffine, {3});
  affine.weights.assign(16, 1.0f);
  affine.bias.assign(16, -0.5f);
  append(Op::kAdd, {1, 2});
  append(Op::kMul, {4, 5});
  if (read >= 0) append(Op::kMul, {6, read});
  test::AppendConv(network, 3, 3);
  const auto program = BuildProgram(network, ListIsas().front(), nullptr);
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() ? std::string(program->steps[6].kernel_entry->name) : "";
}

TEST(ProgramTest, GatesAreOneLayer) {
  EXPECT_EQ(KernelOfGate(), "gate");
  EXPECT_EQ(KernelOfGate(/*read=*/2), "gate") << "which it reads itself";
  for (const int read : {3, 4, 5}) EXPECT_EQ(KernelOfGate(read), "elementwise") << read;
}

// Zero-padded 3x3 layers by blocks of six pixels, each read by the next. Along y they end where the
// next one stops reading; along x they are half a block apart.
TEST(ProgramTest, BlocksOfRowsEndWhereTheirReadersStop) {
  constexpr int kLayers = 12, kBlockPx = 6;
  Network network = test::InputAlone();
  for (int i = 0; i < kLayers; ++i) test::AppendConv(network, 32, 3);
  const auto program = BuildProgram(network, ListIsas().front(), FindKernel("winograd_f6"));
  ASSERT_TRUE(program.ok()) << program.status();
  const Size image{60, 200};
  const TilePlan plan = PlanTile(*program, image, {0, 0, image.width, image.height});
  const RowSchedule schedule = ScheduleRows(*program, plan);
  for (int i = 2; i < kLayers; ++i) {
    ASSERT_EQ(program->steps[i].block_px, kBlockPx);
    EXPECT_EQ(schedule.tensors[i].ring_rows, kBlockPx + 2) << "layer " << i;
  }
  const InnerTile tile(Size{64, 64});
  const Rect input = PlanTile(*program, tile.image, tile.rect).regions[0];
  EXPECT_LE(input.bottom() - tile.rect.bottom(), kLayers + kBlockPx);
  const int left = tile.rect.x - input.x, right = input.right() - tile.rect.right();
  EXPECT_LE(std::abs(left - right), kBlockPx);
}

// Blocks take 2 MiB of weights each.
Program PlannedDeepNetwork(int blocks) {
  auto program =
      BuildProgram(test::DeepNetwork(blocks), ListIsas().front(), FindKernel("winograd_f6"));
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() ? *std::move(program) : Program();
}

TEST(ProgramTest, DeepNetworksRunInStages) {
  EXPECT_TRUE(PlannedDeepNetwork(8).cuts.empty());
  const Program program = PlannedDeepNetwork(40);
  EXPECT_EQ(program.cuts.size(), 19u) << "of two blocks each";
  for (const int cut : program.cuts) {
    EXPECT_EQ(program.network.layers[cut].inputs.size(), 2u) << "not behind a skip";
    EXPECT_TRUE(program.steps[cut].crosses);
  }
  EXPECT_EQ(std::ranges::count(program.steps, true, &Step::crosses), 19);
}

// The tensors kept between stages are two of their results at most, however many there are.
TEST(ProgramTest, StagesShareTheWorkspace) {
  const Size image{64, 48};
  const auto bytes = [&](int blocks) {
    return WorkspaceOf(PlannedDeepNetwork(blocks), image, {0, 0, image.width, image.height});
  };
  EXPECT_EQ(bytes(80), bytes(40));
}

TEST(ProgramTest, RowsAreMeasuredAsTheyAreScheduled) {
  std::mt19937 random = test::FreshRandom();
  for (int i = 0; i < 10; ++i) {
    const Network network = test::RandomNetwork(random);
    SCOPED_TRACE(test::Describe(network));
    const auto program = BuildProgram(network, ListIsas().front(), nullptr);
    ASSERT_TRUE(program.ok()) << program.status();
    const Size image{test::RandomInt(random, 1, 90), test::RandomInt(random, 1, 90)};
    const TilePlan plan = PlanTile(*program, image, {0, 0, image.width, image.height});
    for (size_t pass = 0; pass <= program->poolings.size(); ++pass) {
      for (const bool keeps : {false, !program->poolings.empty()}) {
        const RowSchedule measured = MeasureRows(*program, plan, pass, keeps);
        const RowSchedule scheduled = ScheduleRows(*program, plan, pass, keeps);
        EXPECT_TRUE(measured.steps.empty());
        EXPECT_EQ(measured.step_count, scheduled.steps.size());
        EXPECT_EQ(measured.workspace_floats, scheduled.workspace_floats);
        EXPECT_EQ(measured.cached_floats, scheduled.cached_floats);
        EXPECT_EQ(measured.staged, scheduled.staged);
      }
    }
  }
}

Program NormalisedProgram(int blocks) {
  auto program = BuildProgram(test::NormalisedNetwork(blocks), ListIsas().front(), nullptr);
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() ? *std::move(program) : Program();
}

TEST(ProgramTest, ManyPoolingsAreStagesOfTheirOwn) {
  EXPECT_FALSE(NormalisedProgram(8).HasStageForEachPass());
  const Program program = NormalisedProgram(9);
  EXPECT_TRUE(program.HasStageForEachPass());
  ASSERT_EQ(program.cuts.size(), 9u);
  for (size_t i = 0; i < program.cuts.size(); ++i) {
    EXPECT_EQ(program.cuts[i], program.network.layers[program.poolings[i]].inputs[0]);
  }
  EXPECT_EQ(InSteps(program, &Step::cached), InSteps(program, &Step::crosses));
}

// A tile keeps as much as a block leaves to the next, however many blocks there are; and each layer
// is computed in one pass.
TEST(ProgramTest, PassesShareWhatIsKept) {
  const Size image{64, 48};
  const Rect whole{0, 0, image.width, image.height};
  size_t cached = 0;
  for (const int blocks : {20, 40}) {
    const Program program = NormalisedProgram(blocks);
    const TilePlan plan = PlanTile(program, image, whole);
    std::vector<int> passes(program.network.layers.size());
    for (int pass = 0; pass <= blocks; ++pass) {
      const RowSchedule schedule = ScheduleRows(program, plan, pass, /*keeps=*/true);
      if (cached == 0) cached = schedule.cached_floats;
      EXPECT_EQ(schedule.cached_floats, cached);
      std::set<int> computed;
      for (const RowSchedule::Step& step : schedule.steps) computed.insert(step.layer);
      for (const int layer : computed) ++passes[layer];
    }
    EXPECT_THAT(passes, Each(testing::Le(1)));
  }
}

TEST(ProgramTest, WithoutWeightsItIsPlannedAlike) {
  std::mt19937 random = test::FreshRandom();
  for (int i = 0; i < 20; ++i) {
    const bool fast = i % 2 == 0;
    const Network network = fast ? test::RandomFastNetwork(random) : test::RandomNetwork(random);
    SCOPED_TRACE(test::Describe(network));
    for (const Isa isa : ListIsas()) {
      const Precision precision = fast && HasVnni(isa) ? Precision::kFast : Precision::kExact;
      const auto whole = BuildProgram(network, isa, nullptr, precision);
      const auto planned = BuildProgram(WithoutWeights(network), isa, nullptr, precision);
      ASSERT_TRUE(whole.ok() && planned.ok()) << whole.status() << planned.status();
      EXPECT_EQ(InSteps(*planned, &Step::kernel_entry), InSteps(*whole, &Step::kernel_entry));
      EXPECT_EQ(planned->weight_bytes, whole->weight_bytes);
      const InnerTile tile(kSmallestTile);
      EXPECT_EQ(WorkspaceOf(*planned, tile), WorkspaceOf(*whole, tile));
    }
  }
}

}  // namespace
}  // namespace upscaled::cpu
