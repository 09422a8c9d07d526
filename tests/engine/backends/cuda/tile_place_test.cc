// Where tiles are computed, and their needs: needs no device.
#include "engine/backends/cuda/tile_place.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "engine/backends/cuda/batch_layout.h"
#include "engine/backends/cuda/batch_views.h"
#include "engine/backends/cuda/lru_cache.h"
#include "engine/backends/reference/reference_backend.h"
#include "engine/graph/pooling.h"
#include "engine/graph/tile_geometry.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/cached_tile.h"
#include "tests/engine/backends/cuda/plan_for_cuda.h"
#include "tests/engine/backends/random_network.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using cuda::BatchLayout;
using cuda::BatchShape;
using cuda::PlacedTile;
using cuda::Program;
using cuda::TilePlace;
using test::RandomInt;

class CudaTilePlaceTest : public ::testing::Test {
 protected:
  void UseRandomNetwork() {
    network_ = test::RandomNetwork(random_);
    program_ = test::PlanForCuda(network_);
  }

  PlacedTile Place(const TilePlace& place) const {
    return cuda::PlaceTile(program_, PlanTile(network_, place.image, place.tile));
  }

  TilePlace RandomPlace(int max_side) {
    const Size image{RandomInt(random_, 1, max_side), RandomInt(random_, 1, max_side)};
    const int x = RandomInt(random_, 0, image.width - 1);
    const int y = RandomInt(random_, 0, image.height - 1);
    return {image,
            {x, y, RandomInt(random_, 1, std::min(24, image.width - x)),
             RandomInt(random_, 1, std::min(24, image.height - y))}};
  }

  std::mt19937 random_ = test::FreshRandom();
  Network network_;
  Program program_;
};

// But for the last digits: the reference blends by fractions of positions.
void ExpectNear(const Image& actual, const Image& expected) {
  const auto* const a = reinterpret_cast<const float*>(actual.view().data);
  const auto* const b = reinterpret_cast<const float*>(expected.view().data);
  for (size_t i = 0; i < expected.bytes() / sizeof(float); ++i) {
    ASSERT_NEAR(a[i], b[i], 1e-5f * (1 + std::abs(b[i]))) << "value " << i;
  }
}

// The reference computes the same of a tile where it is and where its plan puts it.
TEST_F(CudaTilePlaceTest, ATileIsTheSameWhereItIsComputed) {
  const auto backend = CreateReferenceBackend({});
  ASSERT_TRUE(backend.ok()) << backend.status();
  int moved = 0;
  for (int i = 0; i < 30; ++i) {
    UseRandomNetwork();
    SCOPED_TRACE(test::Describe(network_));
    const auto executable = (*backend)->Compile(network_, Precision::kExact);
    ASSERT_TRUE(executable.ok()) << executable.status();
    const TilePlace place = RandomPlace(700);
    const PlacedTile plan = Place(place);
    moved += plan.place == place ? 0 : 1;
    const Rect source = PlanTile(network_, place.image, place.tile).input;
    ASSERT_EQ(source.width, plan.source.width);
    ASSERT_EQ(source.height, plan.source.height);
    const Image pixels =
        test::RandomImage({source.width, source.height, 3, SampleType::kU8}, random_);
    std::vector<ChannelMeans> means;
    for (const int pooling : program_.poolings) {
      means.emplace_back(network_.layers[pooling].out_channels, 0.5f);
    }
    const PoolingPass pass{.means = means};
    const auto run = [&](const TilePlace& at, const Rect& src_rect) {
      Image result(
          {at.tile.width * network_.scale, at.tile.height * network_.scale, 3, SampleType::kF32});
      const TileTask task{std::make_shared<const TilePlan>((*executable)->Plan(at.tile, at.image)),
                          pixels.view(), src_rect, result.mutable_view(), &pass};
      const absl::Status status = (*backend)->CreateStream()->Run(**executable, {&task, 1});
      EXPECT_TRUE(status.ok()) << status;
      return result;
    };
    ExpectNear(run(plan.place, plan.source), run(place, source));
    if (HasFailure()) return;
  }
  EXPECT_GT(moved, 0);
}

// To share graphs and batches.
TEST_F(CudaTilePlaceTest, InnerTilesOfAllImagesAreComputedAtOnePlace) {
  UseRandomNetwork();
  SCOPED_TRACE(test::Describe(network_));
  const int period = program_.period_px, border = program_.reach_px + 4 * period;
  const Rect tile{border, border, 40, 24};
  const TilePlace place{{tile.right() + border, tile.bottom() + border}, tile};
  const PlacedTile plan = Place(place);
  for (int i = 0; i < 20; ++i) {
    TilePlace other = place;
    other.tile.x += RandomInt(random_, 0, 50) * period;
    other.tile.y += RandomInt(random_, 0, 50) * period;
    other.image.width = other.tile.right() + border + RandomInt(random_, 0, 50) * period;
    other.image.height = other.tile.bottom() + border + RandomInt(random_, 0, 50) * period;
    const PlacedTile other_plan = Place(other);
    EXPECT_EQ(other_plan.place, plan.place);
    EXPECT_EQ(other_plan.regions, plan.regions);
    EXPECT_EQ(other_plan.partial_sum_rects, plan.partial_sum_rects);
  }
}

// Between them the parts of an image's tiles cover the layer once, each in its tile's region.
TEST_F(CudaTilePlaceTest, SharesLieInWhatIsComputed) {
  for (int i = 0; i < 200; ++i) {
    UseRandomNetwork();
    const PlacedTile plan = Place(RandomPlace(500));
    SCOPED_TRACE(test::Describe(network_));
    ASSERT_EQ(plan.partial_sum_rects.size(), program_.poolings.size());
    for (size_t p = 0; p < plan.partial_sum_rects.size(); ++p) {
      const int pooled = network_.layers[program_.poolings[p]].inputs[0];
      if (plan.partial_sum_rects[p].empty()) continue;
      EXPECT_TRUE(plan.regions[pooled].Contains(plan.partial_sum_rects[p]));
    }
  }
}

TEST_F(CudaTilePlaceTest, MemoryOfEveryRootHoldsItsLayers) {
  for (int i = 0; i < 50; ++i) {
    UseRandomNetwork();
    SCOPED_TRACE(test::Describe(network_));
    const PlacedTile plan = Place(RandomPlace(200));
    const auto floats = cuda::SlotBytes(program_, plan, Precision::kExact);
    const auto halves = cuda::SlotBytes(program_, plan, Precision::kFast);
    ASSERT_EQ(floats.size(), static_cast<size_t>(program_.slots));
    for (size_t s = 0; s < floats.size(); ++s) EXPECT_EQ(floats[s], 2 * halves[s]);
    for (size_t l = 0; l < network_.layers.size(); ++l) {
      const cuda::Placement& place = program_.placements[l];
      if (place.allocation < 0 || plan.regions[l].empty()) continue;
      const Rect& rect = plan.rects[place.allocation];
      EXPECT_TRUE(rect.Contains(plan.regions[l])) << "layer " << l;
      const cuda::Allocation& allocation = program_.allocations[place.allocation];
      EXPECT_GE(floats[allocation.slot], rect.Area() * allocation.planes * 8 * sizeof(float));
    }
  }
}

TEST_F(CudaTilePlaceTest, PiecesOfABatchDoNotOverlap) {
  for (int i = 0; i < 50; ++i) {
    UseRandomNetwork();
    SCOPED_TRACE(test::Describe(network_));
    const PlacedTile plan = Place(RandomPlace(200));
    BatchShape shape{.tiles = RandomInt(random_, 1, 5), .src_channels = RandomInt(random_, 3, 4)};
    shape.known_means = RandomInt(random_, 0, static_cast<int>(program_.poolings.size()));
    shape.gathers = shape.known_means < program_.poolings.size();
    const BatchLayout layout = cuda::LayOut(program_, plan, Precision::kFast, shape);
    std::vector<std::pair<size_t, size_t>> pieces;  // begin, end
    for (size_t m = 0; m < shape.known_means; ++m) {
      const size_t channels = network_.layers[program_.poolings[m]].out_channels;
      pieces.push_back({layout.means[m], layout.means[m] + shape.tiles * channels * sizeof(float)});
    }
    const size_t source_bytes =
        static_cast<size_t>(plan.source.Area()) * shape.src_channels * shape.tiles;
    pieces.push_back({layout.source, layout.source + source_bytes});
    EXPECT_EQ(layout.sent_bytes, pieces.back().second);
    pieces.push_back({layout.result, layout.lost});
    const auto slot_bytes = cuda::SlotBytes(program_, plan, Precision::kFast);
    for (size_t s = 0; s < slot_bytes.size(); ++s) {
      const size_t begin = layout.tensors + layout.slots[s];
      pieces.push_back({begin, begin + shape.tiles * slot_bytes[s]});
    }
    size_t free_from = 0;
    for (const auto& [begin, end] : pieces) {
      EXPECT_GE(begin, free_from);
      EXPECT_EQ(begin % 16, 0u);
      free_from = end;
    }
    EXPECT_GE(layout.bytes, free_from);
  }
}

// The kernel of the layer adds up one strip, but not several or none.
TEST_F(CudaTilePlaceTest, StepsAddUpWhatABatchGathers) {
  network_ = test::ScaledByItsMean(random_);
  program_ = test::PlanForCuda(network_);
  uint8_t first_byte;  // nobody looks at the memory
  const auto views_of = [&](Size size, bool gathers) {
    const PlacedTile plan = Place({size, {0, 0, size.width, size.height}});
    const BatchShape shape{.tiles = 2, .known_means = gathers ? 0u : 1u, .gathers = gathers};
    const BatchLayout layout = cuda::LayOut(program_, plan, Precision::kFast, shape);
    uint8_t* const memory = &first_byte;
    const cuda::BatchViews views = cuda::ViewsOf(program_, plan, Precision::kFast, shape, layout,
                                                 memory, memory + layout.tensors);
    if (gathers) {
      EXPECT_EQ(layout.zeroed, layout.result);
      EXPECT_GE(layout.lost - layout.zeroed, shape.tiles * 8 * sizeof(int64_t));
    }
    EXPECT_EQ(layout.zeroed + layout.zeroed_bytes(), layout.gave_up + sizeof(uint32_t));
    if (views.summed_layer >= 0) {
      EXPECT_EQ(views.sums.part, plan.partial_sum_rects[0]);
      EXPECT_EQ(reinterpret_cast<const uint8_t*>(views.sums.data), memory + layout.result);
    }
    return views;
  };
  EXPECT_EQ(views_of({40, 30}, true).summed_layer, network_.layers[program_.poolings[0]].inputs[0]);
  EXPECT_EQ(views_of({40, 30}, false).summed_layer, -1);
  EXPECT_EQ(views_of({3000, 2000}, true).summed_layer, -1);
}

TEST(CudaSumStripsTest, CoverTheShareOnceInPiecesThatKernelsTake) {
  for (const Rect share : {Rect{3, 5, 7, 9}, Rect{0, 0, 5000, 3000}, Rect{1, 1, 1 << 22, 3}}) {
    int y = share.y;
    for (const Rect& strip : cuda::SumStrips(share)) {
      EXPECT_EQ(strip.x, share.x);
      EXPECT_EQ(strip.width, share.width);
      EXPECT_EQ(strip.y, y);
      EXPECT_LE(strip.Area(), cuda::kMaxSummedPixels);
      y = strip.bottom();
    }
    EXPECT_EQ(y, share.bottom());
  }
  EXPECT_TRUE(cuda::SumStrips({4, 4, 0, 0}).empty());
}

TEST(CudaLruCacheTest, ForgetsWhatWasNotUsedForLongest) {
  cuda::LruCache<int, int> cache(2);
  cache.Get(1) = 10;
  cache.Get(2) = 20;
  EXPECT_EQ(cache.Get(1), 10);
  cache.Get(3) = 30;
  EXPECT_EQ(cache.size(), 2u);
  EXPECT_EQ(cache.Get(1), 10);
  EXPECT_EQ(cache.Get(2), 0);  // was forgotten, then 3 was
  EXPECT_EQ(cache.Get(1), 10);
  cache.Clear();
  EXPECT_EQ(cache.size(), 0u);
  EXPECT_EQ(cache.Get(1), 0);
}

}  // namespace
}  // namespace upscaled
