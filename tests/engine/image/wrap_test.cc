// A wrapped image goes on beyond each border at the opposite one.
#include "engine/image/wrap.h"

#include <cstring>

#include <gtest/gtest.h>

#include "engine/image/view_rows.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

TEST(WrapTest, GoesOnAtTheOppositeBorder) {
  std::mt19937 random = test::FreshRandom();
  for (const Size size : {Size{1, 1}, Size{7, 5}, Size{40, 3}, Size{3, 40}})
    for (const int margin : {0, 1, 4, 64})
      for (const SampleType type : {SampleType::kU8, SampleType::kU16}) {
        const int channels = test::RandomInt(random, 1, 4);
        const Image image = test::RandomImage({size.width, size.height, channels, type}, random);
        ViewRows source(image.view());
        const RowStage stage = PlanWrap(image.spec(), margin);
        const auto rows = stage.make(source);
        ASSERT_EQ(rows->spec().size(), (Size{size.width + 2 * margin, size.height + 2 * margin}));
        const auto wrapped = test::ReadAllInPortions(*rows, random);
        ASSERT_TRUE(wrapped.ok()) << wrapped.status();
        const auto place = [margin](int at, int length) {
          return (at + 64 * length - margin) % length;
        };
        const size_t pixel_bytes = image.spec().pixel_bytes();
        for (int y = 0; y < wrapped->spec().height_px; ++y)
          for (int x = 0; x < wrapped->spec().width_px; ++x)
            ASSERT_EQ(0, std::memcmp(wrapped->view().row(y) + x * pixel_bytes,
                                     image.view().row(place(y, size.height)) +
                                         place(x, size.width) * pixel_bytes,
                                     pixel_bytes))
                << x << ", " << y << ", margin " << margin;
      }
}

}  // namespace
}  // namespace upscaled
