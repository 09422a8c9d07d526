#include "engine/pipeline/shared_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::RandomInt;

TEST(SharedRows, GivesAllRowsToEveryReaderWhateverTheirPace) {
  std::mt19937 random = test::FreshRandom();
  for (int round = 0; round < 50; ++round) {
    const ImageSpec spec{RandomInt(random, 1, 9), RandomInt(random, 1, 60), RandomInt(random, 1, 4),
                         SampleType::kU8};
    const Image image = test::RandomImage(spec, random);
    const int window_rows = RandomInt(random, 1, 70), readers = RandomInt(random, 1, 3);
    test::ViewRows source(image.view());
    SharedRows shared(source, readers, window_rows);
    std::vector<Image> read;
    for (int i = 0; i < readers; ++i) read.emplace_back(spec);
    std::vector<int> next(static_cast<size_t>(readers), 0);
    while (*std::ranges::min_element(next) < spec.height_px) {
      const int slowest = *std::ranges::min_element(next);
      const auto reader = static_cast<size_t>(RandomInt(random, 0, readers - 1));
      const int most = std::min(spec.height_px, slowest + window_rows) - next[reader];
      const int rows = RandomInt(random, 0, most);
      ASSERT_TRUE(
          shared.reader(static_cast<int>(reader))
              .ReadRows(read[reader].mutable_view().Crop({0, next[reader], spec.width_px, rows}))
              .ok());
      next[reader] += rows;
    }
    for (const Image& rows : read) EXPECT_TRUE(test::SameImages(rows.view(), image.view()));
  }
}

class BrokenRows final : public RowSource {
 public:
  const ImageSpec& spec() const override { return spec_; }
  absl::Status ReadRows(MutableImageView) override { return absl::DataLossError("torn"); }

 private:
  ImageSpec spec_{4, 4, 3, SampleType::kU8};
};

TEST(SharedRows, PassesErrorsOfTheSourceOn) {
  BrokenRows source;
  SharedRows shared(source, 2, 2);
  Image row({4, 1, 3, SampleType::kU8});
  EXPECT_EQ(shared.reader(0).ReadRows(row.mutable_view()), absl::DataLossError("torn"));
  EXPECT_EQ(shared.reader(1).ReadRows(row.mutable_view()), absl::DataLossError("torn"));
}

}  // namespace
}  // namespace upscaled
