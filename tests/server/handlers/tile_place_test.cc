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

// The mean over the image. With 4000 channels few pixels take a gigabyte.
class WidePooling final : public test::FakeExecutable {
 public:
  WidePooling() {
    network_.layers = {
        {.op = Op::kInput, .out_channels = 3},
        {.op = Op::kConv, .inputs = {0}, .out_channels = 4000, .in_channels = 3},
        {.op = Op::kGlobalAveragePool, .inputs = {1}, .out_channels = 4000, .in_channels = 4000}};
  }
  const Network& network() const override { return network_; }

 private:
  Network network_;
};

// As wide as the image, and opposite sides meet.
class Wrapping final : public test::FakeExecutable {
 public:
  Wrapping() {
    network_.layers = {{.op = Op::kInput, .out_channels = 3},
                       {.op = Op::kPad,
                        .inputs = {0},
                        .out_channels = 3,
                        .in_channels = 3,
                        .pad_mode = PadMode::kWrap}};
  }
  const Network& network() const override { return network_; }

 private:
  Network network_;
};

TEST(TilePlaceTest, ImagesThatAreComputedInCellsAreNoTiles) {
  upscale::v1::Tile tile;
  tile.set_height_px(256);
  tile.set_bits_per_sample(8);
  const auto expect = [&tile](const Executable& executable, const std::string& why) {
    tile.set_width_px(256);
    tile.set_pixels(std::string(3 * 256 * 256, '\0'));
    const auto cell = PlaceTile(tile, {}, executable);
    EXPECT_TRUE(cell.ok()) << cell.status();
    tile.set_width_px(300);
    tile.set_pixels(std::string(3 * 300 * 256, '\0'));
    const absl::Status large = PlaceTile(tile, {}, executable).status();
    EXPECT_TRUE(absl::IsInvalidArgument(large)) << large;
    EXPECT_THAT(std::string(large.message()),
                ::testing::HasSubstr("image of 300 x 256 pixels; the model " + why +
                                     ", and computes such images in cells of 256 x 256 pixels"));
  };
  expect(WidePooling(), "takes sums over the image");
  expect(Wrapping(), "may read any pixel of the image");
}

}  // namespace
}  // namespace upscaled::server
