#include "server/handlers/tile_place.h"

#include <gmock/gmock.h>

#include "server/base/error.h"
#include "tests/support/fake_executable.h"

namespace upscaled::server {
namespace {

class Enlarger final : public test::FakeExecutable {
 public:
  explicit Enlarger(int scale) { network_.scale = scale; }
  const Network& network() const override { return network_; }

 private:
  Network network_;
};

TEST(TilePlaceTest, ResultsFitIntoAMessage) {
  const Enlarger executable(16);
  const Limits limits{.max_tile_pixels = 64'000'000};
  upscale::v1::Tile tile;
  tile.set_width_px(1000);
  tile.set_height_px(1000);
  tile.set_bits_per_sample(8);
  tile.set_pixels(std::string(3 * 1000 * 1000, '\0'));
  const auto placed = PlaceTile(tile, limits, executable);
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(placed->result, (ImageSpec{16000, 16000, 3, SampleType::kU8}));

  tile.set_result_bits_per_sample(32);
  const absl::Status large = PlaceTile(tile, limits, executable).status();
  EXPECT_TRUE(absl::IsInvalidArgument(large)) << large;
  EXPECT_EQ(ReasonOf(large), ErrorReason::kLimitExceeded);
  EXPECT_THAT(std::string(large.message()), ::testing::HasSubstr("has 3072000000 bytes"));
}

}  // namespace
}  // namespace upscaled::server
