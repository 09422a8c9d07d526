#include "engine/pipeline/frame_change.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "tests/support/moving_frames.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::RandomInt;

// Kernels that compute blocks of `block_px` from `reach_px` around them.
Locality BlocksOf(int block_px, int reach_px) {
  std::vector<Locality::Margin> margins;
  for (int at = 0; at < block_px; ++at)
    margins.push_back({reach_px + at, reach_px + block_px - 1 - at});
  return Locality(std::move(margins));
}

TEST(Locality, ReachesFromBlockToBlock) {
  const Locality locality = BlocksOf(4, 3);
  EXPECT_EQ(locality.reach_px(), 6);
  EXPECT_EQ(locality.InputOf({8, 12}), (Extent{5, 15}));
  EXPECT_EQ(locality.InputOf({9, 10}), (Extent{5, 15}));
  EXPECT_EQ(locality.InputOf({-1, 1}), (Extent{-7, 7}));
  EXPECT_EQ(locality.DependentsOf({8, 9}), (Extent{4, 12}));
  EXPECT_EQ(locality.DependentsOf({5, 6}), (Extent{0, 12}));
  EXPECT_EQ(locality.DependentsOf({-1, 0}), (Extent{-4, 4}));
}

TEST(FrameChange, EqualFramesHaveNoParts) {
  std::mt19937 random = test::FreshRandom();
  const Image frame = test::RandomImage({70, 50, 3, SampleType::kU8}, random);
  EXPECT_TRUE(FrameChange({70, 50}, BlocksOf(2, 5)).PartsOf(frame.view(), frame.view()).empty());
  EXPECT_TRUE(FrameChange({70, 50}, {}).PartsOf(frame.view(), frame.view()).empty());
}

TEST(FrameChange, FramesThatAreNotLocalAreOnePart) {
  std::mt19937 random = test::FreshRandom();
  const Image before = test::RandomImage({1000, 1000, 1, SampleType::kU8}, random);
  Image frame = test::CopyOf(before.view());
  frame.mutable_view().row(999)[999] ^= 1;
  const auto parts = FrameChange({1000, 1000}, {}).PartsOf(before.view(), frame.view());
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].area, (Rect{0, 0, 1000, 1000}));
  EXPECT_EQ(parts[0].cut_out, (Rect{0, 0, 1000, 1000}));
}

TEST(FrameChange, PartsHoldAllThatDependsOnChangedPixels) {
  std::mt19937 random = test::FreshRandom();
  int cut = 0;
  for (int round = 0; round < 200; ++round) {
    const ImageSpec spec{RandomInt(random, 1, 400), RandomInt(random, 1, 400), 3, SampleType::kU8};
    const int block_px = RandomInt(random, 1, 32);
    const Locality locality = BlocksOf(block_px, RandomInt(random, 0, 40));
    const Rect all{0, 0, spec.width_px, spec.height_px};
    const std::vector<Image> frames = test::MovingFrames(spec, 2, random);
    const auto parts =
        FrameChange(spec.size(), locality).PartsOf(frames[0].view(), frames[1].view());
    cut += parts.size() > 1 || (parts.size() == 1 && parts[0].area != all) ? 1 : 0;
    for (int y = 0; y < spec.height_px; ++y) {
      for (int x = 0; x < spec.width_px; ++x) {
        if (std::equal(frames[0].view().row(y) + 3 * x, frames[0].view().row(y) + 3 * x + 3,
                       frames[1].view().row(y) + 3 * x))
          continue;
        // Each corner of what depends on it lies in a part.
        const Extent columns = locality.DependentsOf({x, x + 1});
        const Extent rows = locality.DependentsOf({y, y + 1});
        const Rect around = Intersect(
            {columns.begin, rows.begin, columns.end - columns.begin, rows.end - rows.begin}, all);
        for (const int px : {around.x, around.right() - 1})
          for (const int py : {around.y, around.bottom() - 1})
            ASSERT_TRUE(std::ranges::any_of(parts,
                                            [&](const ChangedPart& part) {
                                              return part.area.Contains({px, py, 1, 1});
                                            }))
                << px << ", " << py << " around " << x << ", " << y;
      }
    }
    for (const ChangedPart& part : parts) {
      ASSERT_TRUE(all.Contains(part.cut_out));
      const Extent columns = locality.InputOf({part.area.x, part.area.right()});
      const Extent rows = locality.InputOf({part.area.y, part.area.bottom()});
      ASSERT_TRUE(part.cut_out.Contains(Intersect(
          {columns.begin, rows.begin, columns.end - columns.begin, rows.end - rows.begin}, all)));
      // Both corners lie where the image's do in the blocks.
      EXPECT_EQ(part.cut_out.x % block_px, 0);
      EXPECT_EQ(part.cut_out.y % block_px, 0);
      EXPECT_EQ((all.right() - part.cut_out.right()) % block_px, 0);
      EXPECT_EQ((all.bottom() - part.cut_out.bottom()) % block_px, 0);
    }
  }
  EXPECT_GT(cut, 0);
}

TEST(FrameChange, PartsFarApartStayApart) {
  std::mt19937 random = test::FreshRandom();
  const Image before = test::RandomImage({1920, 1080, 3, SampleType::kU8}, random);
  Image frame = test::CopyOf(before.view());
  frame.mutable_view().row(10)[30] ^= 1;
  frame.mutable_view().row(1070)[3 * 1910] ^= 1;
  const auto parts =
      FrameChange({1920, 1080}, BlocksOf(4, 20)).PartsOf(before.view(), frame.view());
  EXPECT_EQ(parts.size(), 2u);
}

}  // namespace
}  // namespace upscaled
