// Kernels for whole blocks of pixels get whole blocks.
#include <memory>

#include "engine/backends/cuda/cuda_backend.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/random_network.h"
#include "tests/engine/backends/run_tiles.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::AppendConv;
using test::RandomImage;
using test::RandomInt;

TEST(CudaBlocksTest, RegionsAreWholeBlocksAndTilesGiveTheSameBytes) {
  std::mt19937 random = test::FreshRandom();
  Network network = test::InputAlone();
  for (const int channels : {16, 24, 16, 3}) AppendConv(network, channels, 3);
  const int first = 2, last = 4;  // of the convolutions; the image's own has a kernel of its own
  const auto backend = CreateCudaBackend("cuda", {.kernel = "in_blocks"});
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto executable = (*backend)->Compile(network, Precision::kFast);
  ASSERT_TRUE(executable.ok()) << executable.status();
  const Size image{41, 37};
  for (int i = 0; i < 8; ++i) {
    const Rect tile{RandomInt(random, 0, 20), RandomInt(random, 0, 20), RandomInt(random, 1, 17),
                    RandomInt(random, 1, 15)};
    const TilePlan plan = (*executable)->Plan(tile, image);
    EXPECT_EQ(plan.regions[last], tile);
    for (int layer = first; layer < last; ++layer) {
      const Rect& region = plan.regions[layer];
      EXPECT_EQ(region.x % 2, 0);
      EXPECT_EQ(region.y % 2, 0);
      EXPECT_TRUE(region.right() % 2 == 0 || region.right() == image.width);
      EXPECT_TRUE(region.bottom() % 2 == 0 || region.bottom() == image.height);
    }
  }
  const Image source = RandomImage({image.width, image.height, 3, SampleType::kU8}, random);
  const Image whole = test::RunTiles(**backend, **executable, source, image);
  for (const Size tile : {Size{7, 11}, Size{16, 16}, Size{1, 37}}) {
    EXPECT_TRUE(test::SameImages(test::RunTiles(**backend, **executable, source, tile).view(),
                                 whole.view()))
        << "tiles of " << tile.width << "x" << tile.height;
  }
}

}  // namespace
}  // namespace upscaled
