#include "engine/backends/overflow.h"

#include <limits>
#include <random>
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

// A result of twice the size, in every type, with a fourth channel that nobody writes.
TEST(ReplaceOverflowedTest, ComputesTheSmallestTileAndWritesTheRunsAlone) {
  std::mt19937 random = test::FreshRandom();
  const Rect tile{20, 30, 10, 8};
  const std::vector<Rect> runs = {{45, 63, 3, 1}, {52, 66, 1, 1}};
  for (const SampleType type : {SampleType::kU8, SampleType::kU16, SampleType::kF32}) {
    const Image before = test::RandomImage({20, 16, 4, type}, random);
    const Image exact = test::RandomImage({10, 6, 3, type}, random);  // of the smallest tile
    Image dst = test::RandomImage({20, 16, 4, type}, random);
    std::copy_n(before.view().data, before.bytes(), dst.mutable_view().data);
    const auto compute = [&](const Rect& part, const MutableImageView& result) {
      EXPECT_EQ(part, (Rect{22, 31, 5, 3}));
      EXPECT_EQ(result.spec, exact.spec());
      std::copy_n(exact.view().data, exact.bytes(), result.data);
      return absl::OkStatus();
    };
    ASSERT_TRUE(ReplaceOverflowed(runs, 2, tile, dst.mutable_view(), compute).ok());
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

// Whatever `compute` is called for, each pixel of the runs is computed, and no other one changes.
TEST(ReplaceOverflowedTest, ComputesSmallTilesWhereRunsLieApart) {
  std::mt19937 random = test::FreshRandom();
  const Rect tile{test::RandomInt(random, 0, 99), test::RandomInt(random, 0, 99), 300, 200};
  const Rect whole = Scale(tile, 2);
  for (const int clusters : {1, 3, 200}) {
    std::vector<Rect> runs;
    for (int i = 0; i < clusters; ++i) {
      const int width = test::RandomInt(random, 1, 120);
      const int x = test::RandomInt(random, 0, whole.width - width);
      const int y = test::RandomInt(random, 0, whole.height - 4);
      for (int row = 0; row < 4; ++row) runs.push_back({whole.x + x, whole.y + y + row, width, 1});
    }
    Image dst({whole.width, whole.height, 3, SampleType::kU8});
    std::fill_n(dst.mutable_view().data, dst.bytes(), uint8_t{1});
    int64_t computed = 0;
    const auto compute = [&](const Rect& part, const MutableImageView& result) {
      EXPECT_TRUE(tile.Contains(part));
      EXPECT_EQ(result.spec.size(), (Size{2 * part.width, 2 * part.height}));
      computed += part.Area();
      for (int y = 0; y < result.spec.height_px; ++y) {
        for (int x = 0; x < result.spec.width_px; ++x) {
          std::fill_n(result.row(y) + 3 * x, 3, static_cast<uint8_t>(100 + (2 * part.x + x) % 100));
        }
      }
      return absl::OkStatus();
    };
    ASSERT_TRUE(ReplaceOverflowed(runs, 2, tile, dst.mutable_view(), compute).ok());
    EXPECT_LE(computed, clusters == 1 ? 61 * 3 : clusters == 3 ? tile.Area() / 2 : tile.Area());
    std::vector<bool> replaced(static_cast<size_t>(whole.Area()));
    for (const Rect& run : runs) {
      const ptrdiff_t first = ptrdiff_t{run.y - whole.y} * whole.width + run.x - whole.x;
      std::fill_n(replaced.begin() + first, run.width, true);
    }
    for (int y = 0; y < whole.height; ++y) {
      for (int x = 0; x < whole.width; ++x) {
        const int expected = replaced[y * whole.width + x] ? 100 + (whole.x + x) % 100 : 1;
        ASSERT_EQ(dst.view().row(y)[3 * x], expected) << x << ", " << y;
      }
    }
  }
}

TEST(ReplaceOverflowedTest, ComputesNothingWhereNothingOverflowed) {
  std::vector<Rect> runs;
  const float pixel[] = {1, 2, 3};
  AppendOverflowed(pixel, 3, 1, 0, 0, runs);
  EXPECT_THAT(runs, IsEmpty());
  const auto compute = [](const Rect&, const MutableImageView&) {
    return absl::InternalError("not to be called");
  };
  EXPECT_TRUE(ReplaceOverflowed(runs, 2, {0, 0, 1, 1}, {}, compute).ok());
}

TEST(ReplaceOverflowedTest, GivesTheErrorOfTheComputation) {
  const std::vector<Rect> runs = {{0, 0, 1, 1}};
  Image dst({1, 1, 3, SampleType::kU8});
  const auto compute = [](const Rect&, const MutableImageView&) {
    return absl::ResourceExhaustedError("no memory");
  };
  EXPECT_EQ(ReplaceOverflowed(runs, 1, {0, 0, 1, 1}, dst.mutable_view(), compute),
            absl::ResourceExhaustedError("no memory"));
}

}  // namespace
}  // namespace upscaled
