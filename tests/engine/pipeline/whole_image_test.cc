// Plans of images that an executable computes whole, and of those that it does not.
#include <algorithm>
#include <memory>

#include "engine/pipeline/reach.h"
#include "engine/pipeline/upscaler.h"
#include "gtest/gtest.h"

namespace upscaled {
namespace {

// Sees all of images of up to 600 pixels a side, and 9 pixels around tiles of others.
class DeepExecutable final : public Executable {
 public:
  const Network& network() const override { return network_; }
  Precision precision() const override { return Precision::kExact; }
  size_t WorkspaceBytes(Size) const override { return 0; }
  size_t WeightBytes() const override { return 0; }
  Size PreferredTile() const override { return {128, 128}; }
  bool ComputesWhole(Size image) const override {
    return std::max(image.width, image.height) <= 600;
  }

 private:
  TilePlan MakePlan(const Rect& tile, Size image) const override {
    const Rect all{0, 0, image.width, image.height};
    return {.tile = tile,
            .image = image,
            .input = ComputesWhole(image) ? all : Intersect(Expand(tile, 9), all),
            .pass_costs = {1}};
  }

  const Network network_ = {.layers = {{.op = Op::kInput, .out_channels = 3}}};
};

absl::StatusOr<UpscalePlan> PlanSquare(int side) {
  UpscaleOptions options;
  options.concurrency = 16;
  return PlanUpscale({side, side, 3, SampleType::kU8}, {side, side},
                     {std::make_shared<DeepExecutable>()}, options);
}

TEST(WholeImageTest, IsOneTileHoweverManyStreamsThereAre) {
  const auto plan = PlanSquare(600);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->passes[0].tile, (Size{600, 600}));
  EXPECT_EQ(plan->passes[0].reach.halo_px, kWholeImageHaloPx);
}

TEST(WholeImageTest, LargerImagesAreCutWithTheHaloOfTheirTiles) {
  const auto plan = PlanSquare(601);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_LE(plan->passes[0].tile.width, 128);
  EXPECT_EQ(plan->passes[0].reach.halo_px, 9);
}

}  // namespace
}  // namespace upscaled
