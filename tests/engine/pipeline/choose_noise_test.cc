#include "engine/pipeline/choose_noise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "engine/model/repository.h"

namespace upscaled {
namespace {

const std::vector<int> kAll = {kNoDenoise, 0, 1, 2, 3};

TEST(ChooseNoiseLevel, GrowsAsTheQualityFalls) {
  for (const bool subsampled : {false, true}) {
    int before = kNoDenoise;
    for (int quality = 100; quality >= 1; --quality) {
      const int level = ChooseNoiseLevel(JpegCoding{quality, subsampled}, kAll);
      EXPECT_GE(level, before) << quality;
      before = level;
    }
    EXPECT_EQ(ChooseNoiseLevel(JpegCoding{100, subsampled}, kAll), kNoDenoise);
    EXPECT_EQ(before, 3);
  }
}

// Levels with the best mean over Kodak's 24.
TEST(ChooseNoiseLevel, IsTheOneThatMeasuredBest) {
  struct Best {
    JpegCoding jpeg;
    int level;
  };
  for (const Best& best :
       {Best{{95, true}, kNoDenoise}, Best{{92, true}, 1}, Best{{85, true}, 1}, Best{{80, true}, 1},
        Best{{75, true}, 2}, Best{{66, true}, 2}, Best{{50, true}, 3}, Best{{40, true}, 3},
        Best{{92, false}, kNoDenoise}, Best{{85, false}, 1}, Best{{75, false}, 1},
        Best{{70, false}, 2}, Best{{62, false}, 2}, Best{{50, false}, 3}}) {
    EXPECT_EQ(ChooseNoiseLevel(best.jpeg, kAll), best.level) << best.jpeg.quality;
  }
}

TEST(ChooseNoiseLevel, IsOneThatTheModelHas) {
  const JpegCoding coarse{30, true}, fine{100, false};
  EXPECT_EQ(ChooseNoiseLevel(coarse, {kNoDenoise}), kNoDenoise);
  EXPECT_EQ(ChooseNoiseLevel(coarse, {kNoDenoise, 0, 1}), 1);
  EXPECT_EQ(ChooseNoiseLevel(coarse, {0, 2}), 2);
  EXPECT_EQ(ChooseNoiseLevel(fine, {0, 1, 2, 3}), 0) << "the gentlest";
  EXPECT_EQ(ChooseNoiseLevel(fine, {}), kNoDenoise);
}

TEST(ChooseNoiseLevel, MakesNoNetworkRunForAnImageThatIsNotEnlarged) {
  ImageHeader header;
  header.jpeg = JpegCoding{.quality = 30, .subsampled = true};
  EXPECT_EQ(ChooseNoiseLevel(header, {60, 40}, {60, 40}, kAll), kNoDenoise);
  EXPECT_EQ(ChooseNoiseLevel(header, {60, 40}, {30, 40}, {0, 1, 2, 3}), kNoDenoise);
  EXPECT_EQ(ChooseNoiseLevel(header, {60, 40}, {61, 40}, kAll), 3);
}

TEST(ChooseNoiseLevel, LeavesOtherFormatsAlone) {
  EXPECT_EQ(ChooseNoiseLevel(std::nullopt, kAll), kNoDenoise);
}

}  // namespace
}  // namespace upscaled
