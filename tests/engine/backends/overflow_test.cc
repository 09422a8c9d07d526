#include "engine/backends/overflow.h"

#include <algorithm>
#include <array>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// A plan of no cost.
TilePlan Free(const Rect& tile) { return {.tile = tile, .pass_costs = {0}}; }

TEST(AppendOverflowedTest, JoinsPixelsSideBySide) {
  const float row[] = {0, 0, 0, kNan, 1, 1, 1, kInfinity, 1, 2, 2, 2, 3, 3, -kInfinity};
  std::vector<Rect> runs;
  AppendOverflowed(row, 3, 5, /*x=*/10, /*y=*/7, runs);
  EXPECT_THAT(runs, ElementsAre(Rect{11, 7, 2, 1}, Rect{14, 7, 1, 1}));
  AppendOverflowed(row, 3, 1, /*x=*/10, /*y=*/8, runs);
  EXPECT_EQ(runs.size(), 2u) << "all finite";
  AppendOverflowed(row + 3, 3, 1, /*x=*/15, /*y=*/8, runs);
  EXPECT_EQ(runs.back(), (Rect{15, 8, 1, 1})) << "of another row";
}

// A result of twice the size, in every type, with a fourth, unwritten channel.
TEST(ReplaceOverflowedTest, ComputesTheSmallestTileAndWritesTheRunsAlone) {
  std::mt19937 random = test::FreshRandom();
  const Rect tile{20, 30, 10, 8};
  const std::vector<Rect> runs = {{45, 63, 3, 1}, {52, 66, 1, 1}};
  for (const SampleType type : {SampleType::kU8, SampleType::kU16, SampleType::kF32}) {
    const Image before = test::RandomImage({20, 16, 4, type}, random);
    const Image exact = test::RandomImage({10, 6, 3, type}, random);  // of the smallest tile
    Image dst = test::RandomImage({20, 16, 4, type}, random);
    std::copy_n(before.view().data, before.bytes(), dst.mutable_view().data);
    const auto compute = [&](const TilePlan& plan, const MutableImageView& result) {
      EXPECT_EQ(plan.tile, (Rect{22, 31, 5, 3}));
      EXPECT_EQ(result.spec, exact.spec());
      std::copy_n(exact.view().data, exact.bytes(), result.data);
      return absl::OkStatus();
    };
    ASSERT_TRUE(ReplaceOverflowed(runs, 2, tile, dst.mutable_view(), {Free, compute}).ok());
    const size_t sample = SampleBytes(type);
    for (int y = 0; y < 16; ++y) {
      for (int x = 0; x < 20; ++x) {
        const Rect pixel{40 + x, 60 + y, 1, 1};
        const bool replaced = runs[0].Contains(pixel) || runs[1].Contains(pixel);
        const uint8_t* const actual = dst.view().Crop({x, y, 1, 1}).data;
        const uint8_t* const expected =
            replaced ? exact.view().Crop({pixel.x - 44, pixel.y - 62, 1, 1}).data
                     : before.view().Crop({x, y, 1, 1}).data;
        EXPECT_TRUE(std::equal(expected, expected + 3 * sample, actual)) << x << ", " << y;
        const uint8_t* const alpha = before.view().Crop({x, y, 1, 1}).data + 3 * sample;
        EXPECT_TRUE(std::equal(alpha, alpha + sample, actual + 3 * sample)) << x << ", " << y;
      }
    }
  }
}

// The values of pixel (x, y) of a result.
std::array<uint8_t, 3> ValuesAt(int x, int y) {
  return {static_cast<uint8_t>(x), static_cast<uint8_t>(y),
          static_cast<uint8_t>(x / 256 + y / 256)};
}

class ReplacedInTilesTest : public ::testing::TestWithParam<int> {
 protected:
  // Replaces the runs of a tile. Returns the computed tiles. `border` is the border a tile reads
  // around it.
  std::vector<Rect> Replace(std::span<const Rect> runs, int border) {
    std::vector<Rect> tiles;
    std::fill_n(dst_.mutable_view().data, dst_.bytes(), uint8_t{77});
    const auto plan = [&](const Rect& part) {
      return TilePlan{.tile = part, .pass_costs = {Expand(part, border).Area()}};
    };
    const auto compute = [&](const TilePlan& planned, const MutableImageView& result) {
      const Rect& part = planned.tile;
      EXPECT_TRUE(tile_.Contains(part));
      EXPECT_EQ(result.spec.size(), (Size{scale_ * part.width, scale_ * part.height}));
      tiles.push_back(part);
      for (int y = 0; y < result.spec.height_px; ++y) {
        for (int x = 0; x < result.spec.width_px; ++x) {
          std::ranges::copy(ValuesAt(scale_ * part.x + x, scale_ * part.y + y),
                            result.row(y) + 3 * x);
        }
      }
      return absl::OkStatus();
    };
    EXPECT_TRUE(ReplaceOverflowed(runs, scale_, tile_, dst_.mutable_view(), {plan, compute}).ok());
    ExpectReplaced(runs);
    return tiles;
  }

  // Checks the runs against the computed ones, and all other bytes for changes.
  void ExpectReplaced(std::span<const Rect> runs) {
    std::vector<bool> replaced(static_cast<size_t>(whole_.Area()));
    for (const Rect& run : runs) {
      const ptrdiff_t first = ptrdiff_t{run.y - whole_.y} * whole_.width + run.x - whole_.x;
      std::fill_n(replaced.begin() + first, run.width, true);
    }
    for (int y = 0; y < whole_.height; ++y) {
      for (int x = 0; x < whole_.width; ++x) {
        std::array<uint8_t, 3> expected = {77, 77, 77};
        if (replaced[y * whole_.width + x]) expected = ValuesAt(whole_.x + x, whole_.y + y);
        ASSERT_TRUE(std::ranges::equal(expected, std::span(dst_.view().row(y) + 3 * x, 3)))
            << x << ", " << y;
      }
    }
  }

  // A block of the result, from its left upper corner on.
  void AddBlock(int x, int y, int width, std::vector<Rect>& runs) const {
    for (int row = 0; row < 4; ++row) runs.push_back({whole_.x + x, whole_.y + y + row, width, 1});
  }

  std::mt19937 random_ = test::FreshRandom();
  const int scale_ = GetParam();
  const Rect tile_{test::RandomInt(random_, 0, 99), test::RandomInt(random_, 0, 99), 300, 200};
  const Rect whole_ = Scale(tile_, scale_);
  Image dst_{{whole_.width, whole_.height, 3, SampleType::kU8}};
};

TEST_P(ReplacedInTilesTest, SmallOnesWhereRunsLieApart) {
  std::vector<Rect> runs;
  AddBlock(0, 0, 8, runs);
  AddBlock(whole_.width - 8, whole_.height - 4, 8, runs);
  int64_t area = 0;
  for (const Rect& tile : Replace(runs, 7)) area += tile.Area();
  EXPECT_LE(area, 2 * 9 * 5);
  EXPECT_EQ(Replace(runs, 400).size(), 1u) << "where more lies around a tile than between the runs";
}

TEST_P(ReplacedInTilesTest, WhateverRunsThereAre) {
  for (const int blocks : {1, 3, 30, 300}) {
    std::vector<Rect> runs;
    for (int i = 0; i < blocks; ++i) {
      const int width = test::RandomInt(random_, 1, 120);
      AddBlock(test::RandomInt(random_, 0, whole_.width - width),
               test::RandomInt(random_, 0, whole_.height - 4), width, runs);
    }
    Replace(runs, test::RandomInt(random_, 0, 40));
  }
}

INSTANTIATE_TEST_SUITE_P(Scales, ReplacedInTilesTest, ::testing::Values(1, 2, 3));

TEST(ReplaceOverflowedTest, ComputesNothingWhereNothingOverflowed) {
  std::vector<Rect> runs;
  const float pixel[] = {1, 2, 3};
  AppendOverflowed(pixel, 3, 1, 0, 0, runs);
  EXPECT_THAT(runs, IsEmpty());
  const auto compute = [](const TilePlan&, const MutableImageView&) {
    return absl::InternalError("not to be called");
  };
  EXPECT_TRUE(ReplaceOverflowed(runs, 2, {0, 0, 1, 1}, {}, {Free, compute}).ok());
}

TEST(ReplaceOverflowedTest, GivesTheErrorOfTheComputation) {
  const std::vector<Rect> runs = {{0, 0, 1, 1}};
  Image dst({1, 1, 3, SampleType::kU8});
  const auto compute = [](const TilePlan&, const MutableImageView&) {
    return absl::ResourceExhaustedError("no memory");
  };
  EXPECT_EQ(ReplaceOverflowed(runs, 1, {0, 0, 1, 1}, dst.mutable_view(), {Free, compute}),
            absl::ResourceExhaustedError("no memory"));
}

}  // namespace
}  // namespace upscaled
