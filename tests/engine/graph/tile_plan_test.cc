#include "engine/graph/tile_plan.h"

#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace upscaled {
namespace {

using ::testing::ElementsAre;

Layer Conv(int input, int in_channels, int out_channels) {
  Layer layer{.op = Op::kConv,
              .name = "conv",
              .inputs = {input},
              .out_channels = out_channels,
              .in_channels = in_channels};
  layer.kernel_px = 3;
  layer.stride_px = 1;
  return layer;
}

// Two valid 3x3 convolutions, 3-8-3, with a border that makes up for them.
Network TwoConvolutions() {
  Network network;
  network.layers = {
      {.op = Op::kInput, .name = "input", .out_channels = 3}, Conv(0, 3, 8), Conv(1, 8, 3)};
  network.scale = 1;
  network.pad_px = 2;
  return network;
}

TEST(TilePlanCostTest, IsThatOfAllThatIsComputedAndAConstant) {
  const TilePlan plan = PlanTile(TwoConvolutions(), {100, 100}, {50, 50, 10, 4});
  const int64_t macs = 9 * 3 * 8 * (12 * 6) + 9 * 8 * 3 * (10 * 4);
  EXPECT_THAT(plan.pass_costs, ElementsAre(macs + kTileOverheadCost));
  EXPECT_EQ(plan.Cost(/*cached=*/false), macs + kTileOverheadCost);
}

TEST(TilePlanCostTest, ThinTilesPayForTheirHalo) {
  const Network network = TwoConvolutions();
  const auto macs = [&](const Rect& tile) {
    return PlanTile(network, {5000, 5000}, tile).Cost(/*cached=*/false) - kTileOverheadCost;
  };
  EXPECT_GT(macs({8, 8, 4096, 1}), macs({8, 8, 64, 64}) * 3 / 2);
}

TEST(TilePlanCostTest, APassThatFindsTheLastOnesActivationsCostsTheRest) {
  Network network = TwoConvolutions();
  Layer pooling{.op = Op::kGlobalAveragePool, .name = "pool", .inputs = {1}, .out_channels = 8};
  Layer scaled{.op = Op::kMul, .name = "scaled", .inputs = {1, 2}, .out_channels = 8};
  Layer last = Conv(3, 8, 3);
  network.layers = {network.layers[0], network.layers[1], pooling, scaled, last};
  const Rect tile{50, 50, 10, 4};
  const TilePlan plan = PlanTile(network, {100, 100}, tile);
  ASSERT_EQ(plan.pass_costs.size(), 2u);
  const int64_t first = plan.PassCost(0, false), result = plan.PassCost(1, false);
  const int64_t last_macs = 9 * 8 * 3 * tile.Area();
  EXPECT_EQ(result - first, last_macs);
  EXPECT_EQ(plan.PassCost(0, true), first) << "there is nothing to go on from";
  EXPECT_EQ(plan.PassCost(1, true), last_macs + kTileOverheadCost);
  EXPECT_EQ(plan.Cost(/*cached=*/false), first + result);
  EXPECT_EQ(plan.Cost(/*cached=*/true), result + kTileOverheadCost);
}

}  // namespace
}  // namespace upscaled
