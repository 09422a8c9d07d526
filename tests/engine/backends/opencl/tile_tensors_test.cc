// The needs of a tile, over random networks: pure arithmetic, needs no device.
#include "engine/backends/opencl/tile_tensors.h"

#include <algorithm>
#include <vector>

#include "engine/backends/opencl/tensor.h"
#include "engine/graph/tile_geometry.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/random_network.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

class OpenClTileTensorsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    network_ = test::RandomNetwork(random_);
    for (const Layer& layer : network_.layers) {
      const bool blocks = layer.op == Op::kConv && layer.kernel_px == 3 && layer.stride_px == 1;
      block_px_.push_back(blocks ? 4 : 1);
    }
  }

  TilePlan RandomPlan() {
    const Size image{test::RandomInt(random_, 1, 200), test::RandomInt(random_, 1, 200)};
    const int x = test::RandomInt(random_, 0, image.width - 1);
    const int y = test::RandomInt(random_, 0, image.height - 1);
    const Rect tile{x, y, test::RandomInt(random_, 1, image.width - x),
                    test::RandomInt(random_, 1, image.height - y)};
    return PlanTile(network_, image, tile, block_px_);
  }

  std::mt19937 random_ = test::FreshRandom();
  Network network_;
  std::vector<int> block_px_;
};

// Tensors hold all pixels their consumers read, and those inside the layer are computed.
TEST_F(OpenClTileTensorsTest, RectanglesHoldWhatIsRead) {
  for (int i = 0; i < 50; ++i) {
    const TilePlan plan = RandomPlan();
    const std::vector<Rect> rects = opencl::TensorRects(network_, block_px_, plan);
    SCOPED_TRACE(test::Describe(network_));
    for (size_t l = 0; l < network_.layers.size(); ++l) {
      const Rect whole{0, 0, plan.layer_sizes[l].width, plan.layer_sizes[l].height};
      if (plan.regions[l].empty()) continue;
      EXPECT_TRUE(rects[l].Contains(plan.regions[l]));
      EXPECT_EQ(Intersect(rects[l], whole), plan.regions[l]) << "layer " << l;
    }
    for (size_t l = 1; l < network_.layers.size(); ++l) {
      const Rect& out = plan.regions[l];
      if (out.empty()) continue;
      const Layer& layer = network_.layers[l];
      for (const int input : layer.inputs) {
        const bool whole =
            layer.op == Op::kGlobalAveragePool || plan.layer_sizes[input] == Size{1, 1};
        if (whole) continue;  // not by position
        const int block = block_px_[l], right = (out.right() - 1) / block * block + block - 1;
        const PixelRange x = InputRange(layer, Axis::kX, {out.x / block * block, right},
                                        plan.layer_sizes[input].width);
        EXPECT_LE(rects[input].x, x.first) << "layer " << l;
        EXPECT_GE(rects[input].right(), x.last + 1) << "layer " << l;
      }
    }
  }
}

TEST_F(OpenClTileTensorsTest, SlotsAreAsLargeAsTheirLargestLayer) {
  const std::vector<Rect> rects = opencl::TensorRects(network_, block_px_, RandomPlan());
  SCOPED_TRACE(test::Describe(network_));
  std::vector<int> slots;
  for (size_t l = 0; l < network_.layers.size(); ++l) slots.push_back(static_cast<int>(l % 3));
  const auto bytes = opencl::SlotBytes(network_, slots, rects, Precision::kExact);
  const auto halves = opencl::SlotBytes(network_, slots, rects, Precision::kFast);
  ASSERT_EQ(bytes.size(), halves.size());
  for (size_t s = 0; s < bytes.size(); ++s) EXPECT_EQ(bytes[s], 2 * halves[s]);
  for (size_t l = 0; l < slots.size(); ++l) {
    const int channels = network_.layers[l].out_channels;
    EXPECT_GE(bytes[slots[l]], opencl::TensorValues(rects[l], channels) * sizeof(float));
  }
}

}  // namespace
}  // namespace upscaled
