// Which layers are computed together, and which buffers hold their results.
#include "engine/graph/network_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/random_network.h"
#include "tests/engine/backends/tested_layers.h"
#include "tests/engine/graph/fake_kernels.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::FakeKernelSet;
using test::MakeConv;
using test::MakePlain;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr unsigned kFuseSum = kFuseAdd | kFuseCrop;

class NetworkPlanTest : public ::testing::Test {
 protected:
  // Appends a layer that reads the given ones, the last by default; returns its index.
  int Append(Layer layer, std::vector<int> inputs = {}) {
    const int index = static_cast<int>(network_.layers.size());
    layer.inputs = inputs.empty() ? std::vector<int>{index - 1} : std::move(inputs);
    layer.name = "layer" + std::to_string(index);
    network_.layers.push_back(std::move(layer));
    return index;
  }
  int AppendConv(int in, int out, std::vector<int> inputs = {}) {
    return Append(MakeConv(Op::kConv, in, out, 3, 1, 1, random_), std::move(inputs));
  }
  int AppendPlain(Op op, int channels, std::vector<int> inputs, int factor_or_crop = 1) {
    const bool crops = op == Op::kCrop;
    return Append(MakePlain(op, channels, channels, crops ? 1 : factor_or_crop,
                            crops ? factor_or_crop : 0, {}),
                  std::move(inputs));
  }

  NetworkPlan Plan(const FakeKernelSet& kernels = FakeKernelSet::FusingAll(),
                   const KernelInfo* forced = nullptr) const {
    absl::StatusOr<NetworkPlan> plan = PlanNetwork(network_, kernels, forced);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan.ok() ? *std::move(plan) : NetworkPlan();
  }
  // The layers that each node covers.
  static std::vector<std::vector<int>> Covered(const NetworkPlan& plan) {
    std::vector<std::vector<int>> covered;
    for (const Node& node : plan.nodes) covered.push_back(node.layers);
    return covered;
  }
  std::vector<std::vector<int>> Covered(const FakeKernelSet& kernels) const {
    return Covered(Plan(kernels));
  }

  std::mt19937 random_ = test::FreshRandom();
  Network network_ = test::InputAlone();
};

// input, skip (1), down (2), up (3), crop (4) of the skip, sum (5), last (6)
class CroppedSkipTest : public NetworkPlanTest {
 protected:
  void SetUp() override {
    AppendConv(3, 8);
    Append(MakeConv(Op::kConv, 8, 8, 5, 1, 0, random_));  // two pixels less on every side
    AppendConv(8, 8);
    AppendPlain(Op::kCrop, 8, {kSkip}, 2);
    AppendPlain(Op::kAdd, 8, {kUp, kCrop});
    AppendConv(8, 3);
  }

  static constexpr int kSkip = 1, kUp = 3, kCrop = 4, kSum = 5;
};

TEST_F(CroppedSkipTest, IsFused) {
  for (const bool crop_first : {false, true}) {
    if (crop_first) network_.layers[kSum].inputs = {kCrop, kUp};
    const NetworkPlan plan = Plan();
    EXPECT_THAT(Covered(plan), ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2),
                                           ElementsAre(kUp, kCrop, kSum), ElementsAre(6)));
    const Node& node = plan.nodes[3];
    EXPECT_EQ(node.main, kUp);
    EXPECT_THAT(node.inputs, ElementsAre(2));
    EXPECT_EQ(node.residual, kSkip);
    EXPECT_EQ(node.residual_crop_px, 2);
    const Layer fused = FusedLayer(network_, node);
    EXPECT_EQ(fused.name, "layer3+layer4+layer5");
    EXPECT_THAT(fused.inputs, ElementsAre(2, kSkip));
    EXPECT_EQ(fused.crop_px, 2);
    EXPECT_FALSE(fused.weights.empty());
  }
}

TEST_F(CroppedSkipTest, SumsCropWhereConvolutionsDoNotAdd) {
  const FakeKernelSet kernels(
      {{{"conv"}, FakeKernelSet::Convolutions()}, {{"plain", kFuseCrop}, FakeKernelSet::Plain()}});
  EXPECT_THAT(Covered(kernels),
              ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2), ElementsAre(kUp),
                          ElementsAre(kCrop, kSum), ElementsAre(6)));
  const Node node = Plan(kernels).nodes[4];
  EXPECT_THAT(node.inputs, ElementsAre(kUp));
  EXPECT_EQ(node.residual, kSkip);
}

TEST_F(CroppedSkipTest, NothingIsFusedThatTheKernelDoesNotFuse) {
  const FakeKernelSet none(
      {{{"conv"}, FakeKernelSet::Convolutions()}, {{"plain"}, FakeKernelSet::Plain()}});
  EXPECT_EQ(Plan(none).nodes.size(), network_.layers.size());
  const FakeKernelSet sums(
      {{{"conv", kFuseAdd}, FakeKernelSet::Convolutions()}, {{"plain"}, FakeKernelSet::Plain()}});
  EXPECT_THAT(Covered(sums),
              ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2), ElementsAre(kCrop),
                          ElementsAre(kUp, kSum), ElementsAre(6)));
}

TEST_F(CroppedSkipTest, ActivatedCropsAndSumsStay) {
  network_.layers[kCrop].activation = Activation::kRelu;
  EXPECT_THAT(Plan().nodes[3].layers, ElementsAre(kCrop));
  network_.layers[kCrop].activation = Activation::kNone;
  network_.layers[kSum].activation = Activation::kRelu;  // would come before the sum
  EXPECT_THAT(Plan().nodes[3].layers, ElementsAre(kUp));
}

TEST_F(CroppedSkipTest, CropsThatOthersReadAreComputed) {
  network_.layers.back().inputs = {kCrop};
  AppendPlain(Op::kMul, 3, {6, kSum});
  EXPECT_THAT(Covered(Plan()), ::testing::Contains(ElementsAre(kCrop)));
}

TEST_F(CroppedSkipTest, OneOfTwoCrops) {
  network_.layers.resize(kSum);
  const int other = AppendPlain(Op::kCrop, 8, {kUp}, 2);
  const int sum = AppendPlain(Op::kAdd, 8, {kCrop, other});
  const FakeKernelSet kernels({{{"conv", kFuseSum}, FakeKernelSet::Convolutions()},
                               {{"plain", kFuseCrop}, FakeKernelSet::Plain()}});
  EXPECT_THAT(Covered(kernels),
              ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2), ElementsAre(kUp),
                          ElementsAre(kCrop), ElementsAre(other, sum)));
}

TEST_F(CroppedSkipTest, AForcedKernelKeepsItsSums) {
  const FakeKernelSet kernels = FakeKernelSet::FusingAll();
  EXPECT_THAT(Covered(Plan(kernels, kernels[1])), ::testing::Contains(ElementsAre(kSum)));
}

TEST_F(NetworkPlanTest, TheLaterPartOfASumComputesItOrElseTheEarlier) {
  const int a = AppendConv(3, 8);
  const int b = AppendConv(3, 8, {0});
  const int sum = AppendPlain(Op::kAdd, 8, {a, b});
  EXPECT_THAT(Plan().nodes.back().layers, ElementsAre(b, sum));
  EXPECT_EQ(Plan().nodes.back().residual, a);
  network_.layers[b] = MakePlain(Op::kMul, 3, 8, 1, 0, {0, 0});
  EXPECT_THAT(Plan().nodes.back().layers, ElementsAre(a, sum));
  EXPECT_EQ(Plan().nodes.back().residual, b);
}

// The end of SRVGG: shuffled, and added to the image enlarged.
TEST_F(NetworkPlanTest, ShuffleAndResizedSkipAreFused) {
  const int body = AppendConv(3, 64);
  const int conv = AppendConv(64, 12);
  const int shuffle = Append(MakePlain(Op::kPixelShuffle, 12, 3, 2, 0, {}));
  const int resize = AppendPlain(Op::kResizeNearest, 3, {0}, 2);
  const int sum = AppendPlain(Op::kAdd, 3, {resize, shuffle});
  const NetworkPlan plan = Plan();
  EXPECT_THAT(Covered(plan), ElementsAre(ElementsAre(0), ElementsAre(body),
                                         ElementsAre(conv, shuffle, resize, sum)));
  const Node& last = plan.nodes.back();
  EXPECT_EQ(last.main, conv);
  EXPECT_EQ(last.shuffle, shuffle);
  EXPECT_EQ(last.residual, 0);
  EXPECT_EQ(last.residual_factor, 2);
  EXPECT_THAT(last.inputs, ElementsAre(body));
  network_.layers[conv].activation = network_.layers[shuffle].activation = Activation::kRelu;
  EXPECT_THAT(Covered(Plan()), ::testing::Contains(ElementsAre(conv)));
}

// The end of the bundled models, where shuffles add.
TEST_F(NetworkPlanTest, ShufflesAddWhatIsCroppedAndThenResized) {
  const int conv = AppendConv(3, 12);
  const int shuffle = Append(MakePlain(Op::kPixelShuffle, 12, 3, 2, 0, {}));
  const int crop = AppendPlain(Op::kCrop, 3, {0}, 4);
  const int resize = AppendPlain(Op::kResizeNearest, 3, {crop}, 2);
  const int sum = AppendPlain(Op::kAdd, 3, {shuffle, resize});
  const auto plan_with = [&](unsigned fusions) {
    return Plan(FakeKernelSet({{{"conv"}, FakeKernelSet::Convolutions()},
                               {{"shuffle", fusions}, {Op::kPixelShuffle}},
                               {{"plain"}, FakeKernelSet::Plain()}}));
  };
  const NetworkPlan plan = plan_with(kFuseSum | kFuseResize);
  EXPECT_THAT(Covered(plan), ElementsAre(ElementsAre(0), ElementsAre(conv),
                                         ElementsAre(shuffle, resize, crop, sum)));
  const Layer fused = FusedLayer(network_, plan.nodes.back());
  EXPECT_THAT(fused.inputs, ElementsAre(conv, 0));
  EXPECT_EQ(fused.crop_px, 4);
  EXPECT_EQ(fused.residual_factor, 2);
  EXPECT_THAT(Covered(plan_with(kFuseAdd | kFuseResize)),
              ElementsAre(ElementsAre(0), ElementsAre(conv), ElementsAre(crop),
                          ElementsAre(shuffle, resize, sum)));
  EXPECT_THAT(Covered(plan_with(kFuseSum)),
              ElementsAre(ElementsAre(0), ElementsAre(conv), ElementsAre(crop), ElementsAre(resize),
                          ElementsAre(shuffle, sum)));
}

TEST_F(NetworkPlanTest, WhatIsResizedAndThenCroppedIsResizedApart) {
  const int a = AppendConv(3, 8);
  const int resize = AppendPlain(Op::kResizeNearest, 8, {a}, 2);
  const int crop = AppendPlain(Op::kCrop, 8, {resize}, 1);
  const int up = Append(MakeConv(Op::kConvTranspose, 8, 8, 4, 2, 2, random_), {a});
  AppendPlain(Op::kAdd, 8, {up, crop});
  const Node last = Plan().nodes.back();
  EXPECT_EQ(last.residual, resize);
  EXPECT_EQ(last.residual_crop_px, 1);
  EXPECT_EQ(last.residual_factor, 1);
}

TEST_F(NetworkPlanTest, WhatOthersReadIsNotFused) {
  const int a = AppendConv(3, 8);
  const int b = AppendConv(8, 8);
  const int sum = AppendPlain(Op::kAdd, 8, {a, b});
  AppendPlain(Op::kMul, 8, {sum, b});  // needs b itself
  EXPECT_EQ(Plan().nodes.size(), network_.layers.size());
}

TEST_F(NetworkPlanTest, KernelsOfTheImageReadItStraight) {
  const int resize = AppendPlain(Op::kResizeNearest, 3, {0}, 2);
  const int first = AppendConv(3, 32);
  const int last = AppendConv(32, 3);
  const FakeKernelSet kernels(
      {{{"first", kFuseImage}, {Op::kConv}}, {{"conv"}, FakeKernelSet::Convolutions()}});
  const NetworkPlan plan = Plan(kernels);
  EXPECT_THAT(Covered(plan), ElementsAre(ElementsAre(resize, first), ElementsAre(last)));
  EXPECT_TRUE(plan.nodes[0].reads_image);
  EXPECT_EQ(plan.nodes[0].resize_factor, 2);
  EXPECT_THAT(plan.nodes[0].inputs, IsEmpty());
}

TEST_F(NetworkPlanTest, PoolingsTakeNoKernelAndWhatNothingNeedsNoNode) {
  const int conv = AppendConv(3, 3);
  AppendConv(3, 3);  // nothing reads it
  const int pool = AppendPlain(Op::kGlobalAveragePool, 3, {conv});
  const int mul = AppendPlain(Op::kMul, 3, {conv, pool});
  const NetworkPlan plan = Plan();
  EXPECT_THAT(Covered(plan),
              ElementsAre(ElementsAre(0), ElementsAre(conv), ElementsAre(pool), ElementsAre(mul)));
  EXPECT_THAT(plan.poolings, ElementsAre(pool));
  EXPECT_EQ(plan.nodes[2].kernel.info, nullptr);
  EXPECT_THAT(plan.nodes[2].inputs, ElementsAre(conv));
}

class GateTest : public NetworkPlanTest {
 protected:
  // A convolution's result, gated by its own means.
  void SetUp() override {
    conv_ = AppendConv(3, 8);
    pool_ = AppendPlain(Op::kGlobalAveragePool, 8, {conv_});
    gate_ = AppendPlain(Op::kMul, 8, {conv_, pool_});
  }
  static FakeKernelSet Gating() {
    return FakeKernelSet(
        {{{"conv", kFuseAdd | kFuseCrop | kFuseGate}, FakeKernelSet::Convolutions()},
         {{"plain"}, FakeKernelSet::Plain()}});
  }

  int conv_ = 0, pool_ = 0, gate_ = 0;
};

TEST_F(GateTest, IsFoldedIntoAllThatReadIt) {
  const int down = AppendConv(8, 8, {gate_});
  const int crop = AppendPlain(Op::kCrop, 8, {gate_}, 2);
  const int up = AppendConv(8, 8, {down});
  const int sum = AppendPlain(Op::kAdd, 8, {up, crop});
  const NetworkPlan plan = Plan(Gating());
  EXPECT_THAT(Covered(plan), ElementsAre(ElementsAre(0), ElementsAre(conv_), ElementsAre(pool_),
                                         ElementsAre(down), ElementsAre(up, crop, sum)));
  EXPECT_THAT(plan.nodes[3].inputs, ElementsAre(conv_));
  EXPECT_EQ(plan.nodes[3].gate, pool_);
  EXPECT_EQ(plan.nodes[4].gate, -1);
  EXPECT_EQ(plan.nodes[4].residual, conv_);
  EXPECT_EQ(plan.nodes[4].residual_gate, pool_);
  EXPECT_THAT(plan.nodes[4].Reads(), ElementsAre(down, conv_, pool_));
}

TEST_F(GateTest, StaysWhereOneCannotTakeIt) {
  AppendConv(8, 8, {gate_});
  AppendPlain(Op::kConcat, 16, {gate_, gate_ + 1});
  EXPECT_EQ(Plan(Gating()).nodes.size(), network_.layers.size());
}

TEST_F(GateTest, StaysWhereItIsTheResult) {
  EXPECT_EQ(Plan(Gating()).nodes.size(), network_.layers.size());
}

TEST_F(GateTest, StaysWithoutSuchKernels) {
  AppendConv(8, 8, {gate_});
  EXPECT_EQ(Plan().nodes.size(), network_.layers.size());
}

TEST_F(GateTest, OnesThatAreActivatedOrPooledStay) {
  network_.layers[gate_].activation = Activation::kRelu;
  AppendConv(8, 8, {gate_});
  EXPECT_EQ(Plan(Gating()).nodes.size(), network_.layers.size());
  network_.layers[gate_].activation = Activation::kNone;
  EXPECT_EQ(Plan(Gating()).nodes.size(), network_.layers.size() - 1);
  const int conv = gate_ + 1;
  const int second = AppendPlain(Op::kGlobalAveragePool, 8, {gate_});
  AppendPlain(Op::kMul, 8, {conv, second});
  EXPECT_EQ(Plan(Gating()).nodes.size(), network_.layers.size());
}

TEST_F(NetworkPlanTest, EveryConvolutionIsChosenOnce) {
  class Counting final : public KernelChooser {
   public:
    std::string Choose(const KernelCandidates& candidates) override {
      ++asked[candidates.layer().name];
      return candidates.names().back();
    }
    std::map<std::string, int> asked;
  } chooser;
  const int a = AppendConv(3, 8);
  const int b = AppendConv(3, 8, {0});
  AppendPlain(Op::kAdd, 8, {a, b});
  const FakeKernelSet kernels({{{"adds", kFuseAdd}, {Op::kConv}},
                               {{"conv"}, {Op::kConv}},
                               {{"plain"}, FakeKernelSet::Plain()}});
  const auto plan = PlanNetwork(network_, kernels, nullptr, &chooser);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(chooser.asked, ElementsAre(std::pair("layer1", 1), std::pair("layer2", 1)));
  EXPECT_EQ(plan->nodes.back().kernel.info, kernels[2]) << "the chosen kernel does not add";
}

TEST_F(NetworkPlanTest, RefusesWhatCannotBe) {
  AppendConv(3, 8);
  FakeKernelSet kernels({{{"conv"}, {Op::kConv}}, {{"transposed"}, {Op::kConvTranspose}}});
  EXPECT_EQ(PlanNetwork(network_, kernels, kernels[1]).status(),
            absl::UnimplementedError("kernel 'transposed' supports no layer of the network"));
  kernels.bytes_per_weight = size_t{10} << 20;
  EXPECT_EQ(PlanNetwork(network_, kernels).status(),
            absl::ResourceExhaustedError(
                "layer 'layer1' brings the packed weights to 2160 MiB, the limit is 1024"));
  AppendPlain(Op::kCrop, 8, {1});
  kernels.bytes_per_weight = 4;
  EXPECT_EQ(PlanNetwork(network_, kernels).status(),
            absl::UnimplementedError("the fake backend cannot run layer 'layer2' (crop)"));
}

TEST_F(NetworkPlanTest, NamesTheFirstLayerThatNothingSupportsBeforeItsSize) {
  AppendConv(3, 8);
  const int crop = AppendPlain(Op::kCrop, 8, {1});
  AppendPlain(Op::kResizeNearest, 8, {crop}, 2);
  FakeKernelSet kernels({{{"conv"}, {Op::kConv}}});
  kernels.bytes_per_weight = size_t{10} << 20;
  EXPECT_EQ(PlanNetwork(network_, kernels).status(),
            absl::UnimplementedError("the fake backend cannot run layer 'layer2' (crop)"));
}

// Follows which layer lies in which slot, over random networks.
TEST_F(NetworkPlanTest, SlotsHoldWhatNodesReadUntilTheyDid) {
  for (int i = 0; i < 100; ++i) {
    network_ = test::RandomNetwork(random_);
    SCOPED_TRACE(test::Describe(network_));
    const NetworkPlan plan = Plan();
    std::vector<int> allocation_of(network_.layers.size());
    std::iota(allocation_of.begin(), allocation_of.end(), 0);
    const std::vector<int> slots = AssignSlots(plan, allocation_of);
    std::map<int, size_t> last_reader;  // of a layer, as an index of nodes
    for (size_t n = 0; n < plan.nodes.size(); ++n) {
      last_reader[plan.nodes[n].layer()] = n;
      for (const int read : plan.nodes[n].Reads()) last_reader[read] = n;
    }
    std::map<int, int> holds;  // slot: layer
    size_t max_at_once = 0;
    for (size_t n = 0; n < plan.nodes.size(); ++n) {
      const Node& node = plan.nodes[n];
      for (const int read : node.Reads()) EXPECT_EQ(holds[slots[read]], read);
      for (const int read : node.Reads()) EXPECT_NE(slots[read], slots[node.layer()]);
      holds[slots[node.layer()]] = node.layer();
      const auto lives = [&](const auto& held) { return last_reader[held.second] >= n; };
      max_at_once = std::max<size_t>(max_at_once, std::ranges::count_if(holds, lives));
    }
    EXPECT_EQ(holds[slots.back()], static_cast<int>(network_.layers.size()) - 1);
    EXPECT_EQ(holds.size(), max_at_once) << "a slot more than results that are needed at once";
  }
}

}  // namespace
}  // namespace upscaled
