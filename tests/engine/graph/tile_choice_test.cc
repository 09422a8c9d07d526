#include "engine/graph/tile_choice.h"

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace upscaled {
namespace {

constexpr Size kSizes[] = {{800, 400}, {400, 200}};
constexpr size_t kMiB = size_t{1} << 20;

// A multiply-add and `bytes_per_px` a pixel; a row takes a pixel more, so that turned tiles differ.
absl::StatusOr<Size> Choose(const TileLimits& limits, size_t bytes_per_px) {
  const auto macs = [](Size tile) { return static_cast<double>(tile.Area()); };
  const auto bytes = [&](Size tile) -> absl::StatusOr<size_t> {
    return static_cast<size_t>(tile.Area() + tile.height) * bytes_per_px;
  };
  return ChooseLargestTile(limits, {macs, bytes});
}

TileLimits Limits(size_t good_bytes) {
  return {.largest_first = kSizes,
          .smallest = {100, 50},
          .max_macs = 1e9,
          .good_bytes = good_bytes,
          .max_bytes = 200 * kMiB,
          .memory_name = "memory"};
}

TEST(ChooseLargestTileTest, TheFirstThatFits) {
  EXPECT_EQ(*Choose(Limits(10 * kMiB), 1), kSizes[0]);
  EXPECT_EQ(*Choose(Limits(10 * kMiB), 50), kSizes[1]);
  TileLimits limits = Limits(10 * kMiB);
  limits.max_macs = 200e3;
  EXPECT_EQ(*Choose(limits, 1), kSizes[1]);
  limits.max_macs = 1;
  EXPECT_EQ(*Choose(limits, 1), limits.smallest);
}

TEST(ChooseLargestTileTest, TurnedTilesFitToo) {
  TileLimits limits = Limits(kSizes[0].Area() + kSizes[0].height);
  EXPECT_EQ(*Choose(limits, 1), kSizes[0]);
  limits.turned = true;
  EXPECT_EQ(*Choose(limits, 1), kSizes[1]);
}

TEST(ChooseLargestTileTest, WhereTheHaloCountsTheLargestThatIsAllowed) {
  TileLimits limits = Limits(1);
  EXPECT_EQ(*Choose(limits, 1000), limits.smallest);
  limits.halo_counts = true;
  EXPECT_EQ(*Choose(limits, 1000), kSizes[1]);
}

TEST(ChooseLargestTileTest, TheSmallestMustBeAllowed) {
  EXPECT_EQ(Choose(Limits(1), kMiB).status(),
            absl::ResourceExhaustedError(
                "a tile of 100x50 pixels needs 5050 MiB of memory, the limit is 200"));
}

TEST(ChooseLargestTileTest, WhatCannotBeIsNotChosen) {
  const auto macs = [](Size) { return 0.0; };
  const auto bytes = [](Size tile) -> absl::StatusOr<size_t> {
    if (tile.width > 100) return absl::ResourceExhaustedError("too wide");
    return 1;
  };
  EXPECT_EQ(*ChooseLargestTile(Limits(1), {macs, bytes}), (Size{100, 50}));
  TileLimits limits = Limits(1);
  limits.smallest = {200, 50};
  EXPECT_EQ(ChooseLargestTile(limits, {macs, bytes}).status(),
            absl::ResourceExhaustedError("too wide"));
}

}  // namespace
}  // namespace upscaled
