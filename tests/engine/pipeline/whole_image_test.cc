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
  size_t ActivationCacheBytes(Size tile, Size) const override {
    return static_cast<size_t>(tile.Area());
  }
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

absl::StatusOr<UpscalePlan> PlanSquare(int side, UpscaleOptions options = {}) {
  options.concurrency = 16;
  return PlanUpscale({side, side, 3, SampleType::kU8}, {side, side},
                     {std::make_shared<DeepExecutable>()}, options);
}

TEST(WholeImageTest, IsOneTileHoweverManyStreamsThereAre) {
  const auto plan = PlanSquare(600);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->passes[0].tile, (Size{600, 600}));
  EXPECT_EQ(plan->passes[0].reach.halo_px(), kWholeImageHaloPx);
}

TEST(WholeImageTest, LargerImagesAreCutWithTheHaloOfTheirTiles) {
  const auto plan = PlanSquare(601);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_LE(plan->passes[0].tile.width, 128);
  EXPECT_EQ(plan->passes[0].reach.halo_px(), 9);
}

TEST(WholeImageTest, HasItsCacheWhateverTheLimit) {
  constexpr size_t kBytes = 600 * 600 - 1;  // one less than it takes
  const auto whole = PlanSquare(600, {.activation_cache_bytes = kBytes});
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->passes[0].cached_tiles, 1);
  const auto cut = PlanSquare(600, {.tile_px = 300, .activation_cache_bytes = kBytes});
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_EQ(cut->passes[0].cached_tiles, 3) << "of four tiles";
}

}  // namespace
}  // namespace upscaled
