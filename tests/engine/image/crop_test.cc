#include "engine/image/crop.h"

#include <algorithm>
#include <memory>
#include <random>

#include <gtest/gtest.h>

#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::RandomInt;

TEST(CropTest, GivesThePartHoweverItIsRead) {
  std::mt19937 random = test::FreshRandom();
  for (int round = 0; round < 50; ++round) {
    const ImageSpec spec{RandomInt(random, 1, 20), RandomInt(random, 1, 20),
                         RandomInt(random, 1, 4),
                         RandomInt(random, 0, 1) ? SampleType::kU8 : SampleType::kU16};
    const Image image = test::RandomImage(spec, random);
    Rect part{RandomInt(random, 0, spec.width_px - 1), RandomInt(random, 0, spec.height_px - 1)};
    part.width = RandomInt(random, 1, spec.width_px - part.x);
    part.height = RandomInt(random, 1, spec.height_px - part.y);
    if (round == 0) part = {0, 0, spec.width_px, spec.height_px};

    const RowStage stage = PlanCrop(spec, part);
    EXPECT_EQ(stage.source, spec);
    EXPECT_EQ(stage.result, image.view().Crop(part).spec);
    test::ViewRows source(image.view());
    const std::unique_ptr<RowSource> rows = stage.make(source);
    EXPECT_EQ(rows->spec(), stage.result);
    Image result(stage.result);
    for (int y = 0, height = 0; y < part.height; y += height) {
      height = std::min(RandomInt(random, 1, 7), part.height - y);
      ASSERT_TRUE(rows->ReadRows(result.mutable_view().Crop({0, y, part.width, height})).ok());
    }
    EXPECT_TRUE(test::SameImages(result.view(), image.view().Crop(part)));
  }
}

}  // namespace
}  // namespace upscaled
