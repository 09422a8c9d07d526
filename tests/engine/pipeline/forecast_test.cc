// A plan's cost and memory next to the cost and memory of what runs, for networks of all kinds but
// attention on the CPU, of which small tiles are forecast with more memory.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "engine/pipeline/local_executor.h"
#include "engine/pipeline/upscaler.h"
#include "tests/engine/backends/random_network.h"
#include "tests/engine/backends/tested_devices.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

// The bounds of engine/pipeline/README.md: the cost is near on both sides, the memory is never less
// than it takes.
constexpr double kCostBound = 0.03;
constexpr size_t kMemoryBound = 3;

size_t AllocatedBytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// Adds up the cost of all that it runs, and remembers the most memory seen around each run.
class CountingExecutor final : public TileExecutor {
 public:
  explicit CountingExecutor(Backend& backend) : executor_(MakeLocalExecutor(backend)) {}

  void Submit(std::shared_ptr<const Executable> executable, std::vector<TileTask> tiles,
              Cancellation* cancellation, TileDone done) override {
    for (const TileTask& tile : tiles) Count(CostOf(tile));
    executor_->Submit(std::move(executable), std::move(tiles), cancellation,
                      [this, done = std::move(done)](size_t index, const absl::Status& status) {
                        Count(0);
                        done(index, status);
                      });
  }
  int concurrency() const override { return executor_->concurrency(); }

  double cost() const {
    absl::MutexLock lock(&mutex_);
    return cost_;
  }
  size_t most_bytes() const {
    absl::MutexLock lock(&mutex_);
    return most_bytes_;
  }

 private:
  void Count(int64_t cost) {
    const size_t bytes = AllocatedBytes();
    absl::MutexLock lock(&mutex_);
    cost_ += static_cast<double>(cost);
    most_bytes_ = std::max(most_bytes_, bytes);
  }

  mutable absl::Mutex mutex_;
  double cost_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t most_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  const std::unique_ptr<TileExecutor> executor_;  // the first to go
};

Network ChainOf(int layers) {
  Network network = test::InputAlone();
  for (int i = 0; i < layers; ++i) test::AppendConv(network, 32, 3);
  test::AppendConv(network, 3, 3);
  return network;
}

Network PooledChain() {
  Network network = test::InputAlone();
  for (int i = 0; i < 4; ++i) {
    test::AppendConv(network, 32, 3);
    test::AppendTimesMean(network, static_cast<int>(network.layers.size()) - 1);
  }
  test::AppendConv(network, 3, 3);
  return network;
}

// Its border is the opposite side of the image.
Network WrappedChain() {
  Network network = test::InputAlone();
  network.layers.push_back({.op = Op::kPad,
                            .name = "wrapped",
                            .inputs = {0},
                            .out_channels = 3,
                            .in_channels = 3,
                            .padding_px = 2,
                            .pad_mode = PadMode::kWrap});
  test::AppendConv(network, 32, 3);
  test::AppendConv(network, 3, 3);
  network.layers.push_back({.op = Op::kCrop,
                            .name = "crop",
                            .inputs = {3},
                            .out_channels = 3,
                            .in_channels = 3,
                            .crop_px = 2});
  return network;
}

enum class Cut { kTiles, kOneTile, kRows, kCells };

struct Case {
  const char* name;
  std::function<Network()> network;
  Size image;
  Cut cut;
  UpscaleOptions options = {};
  int streams = 2;
};

Cut CutOf(const PassSpec& pass) {
  if (pass.cells) return Cut::kCells;
  if (pass.rows) return Cut::kRows;
  return pass.tile == pass.source.size() ? Cut::kOneTile : Cut::kTiles;
}

const Case kCases[] = {
    {"local", [] { return ChainOf(2); }, {300, 200}, Cut::kTiles, {.tile_px = 100}},
    {"local, TTA",
     [] { return ChainOf(2); },
     {300, 150},
     Cut::kTiles,
     {.tta = true, .tile_px = 90}},
    {"rows", [] { return ChainOf(12); }, {700, 400}, Cut::kRows},
    {"pooled", PooledChain, {400, 300}, Cut::kTiles, {.tile_px = 120}},
    {"pooled, few caches",
     PooledChain,
     {400, 300},
     Cut::kTiles,
     {.tile_px = 120, .activation_cache_bytes = size_t{40} << 20}},
    {"pooled, TTA", PooledChain, {300, 200}, Cut::kTiles, {.tta = true, .tile_px = 120}},
    {"pooled, one tile", PooledChain, {140, 120}, Cut::kOneTile, {}, 1},
    {"pooled, one tile, TTA", PooledChain, {140, 120}, Cut::kOneTile, {.tta = true}, 1},
    {"pooled, cells", PooledChain, {700, 400}, Cut::kCells, {.max_whole_bytes = 0}},
    {"pooled, cells, TTA",
     PooledChain,
     {300, 270},
     Cut::kCells,
     {.tta = true, .max_whole_bytes = 0}},
    {"reads anywhere", WrappedChain, {256, 240}, Cut::kOneTile, {}, 1},
    {"reads anywhere, TTA", WrappedChain, {256, 240}, Cut::kOneTile, {.tta = true}, 1},
    {"reads anywhere, cells", WrappedChain, {600, 300}, Cut::kCells},
};

class ForecastTest : public ::testing::TestWithParam<Case> {};

TEST_P(ForecastTest, IsNearTheCostAndTheMemoryThatRunningTakes) {
  if (AllocatedBytes() == 0) GTEST_SKIP() << "the allocator keeps no account (sanitizers)";
  const Case& c = GetParam();
  const auto backend =
      test::CreateTestedBackend("cpu", {.threads = c.streams, .poisons_memory = false});
  ASSERT_TRUE(backend.ok()) << backend.status();
  const Network network = c.network();
  const auto executable = (*backend)->Compile(network, Precision::kExact);
  ASSERT_TRUE(executable.ok()) << executable.status();
  const ImageSpec spec{c.image.width, c.image.height, 3, SampleType::kU8};
  UpscaleOptions options = c.options;
  options.spare_flat_areas = false;
  options.concurrency = c.streams;
  const auto plan =
      PlanUpscale(spec, {spec.width_px * network.scale, spec.height_px * network.scale},
                  {*executable}, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const PassSpec& pass = plan->passes.front();
  // Other instruction sets have other blocks, and cut some of these images otherwise.
  const bool has_known_blocks = (*backend)->description().find("avx512") != std::string::npos;
  if (CutOf(pass) != c.cut && !has_known_blocks) GTEST_SKIP() << "cut otherwise on this CPU";
  EXPECT_EQ(CutOf(pass), c.cut);

  std::mt19937 random = test::FreshRandom();
  const Image image = test::RandomImage(spec, random);
  Image result(plan->result);
  const size_t before = AllocatedBytes();
  CountingExecutor executor(**backend);
  {
    test::ViewRows source(image.view());
    const auto upscaler = MakeUpscaler(*plan, source, executor, /*cancellation=*/nullptr);
    const absl::Status status = upscaler->ReadRows(result.mutable_view());
    ASSERT_TRUE(status.ok()) << status;
  }
  EXPECT_NEAR(static_cast<double>(plan->cost), executor.cost(), kCostBound * executor.cost());

  const size_t stream =
      pass.rows ? pass.rows->scratch_bytes
                : std::max((*executable)->WorkspaceBytes(pass.tile),
                           (*executable)->WorkspaceBytes({pass.tile.height, pass.tile.width}));
  // Buffers that begin at a huge page leave up to one unused, which is address space only.
  constexpr size_t kHugePageBytes = size_t{2} << 20;
  const size_t caches = pass.cells ? static_cast<size_t>(pass.cells_in_flight)
                                   : static_cast<size_t>(pass.cached_tiles + (pass.rows ? 1 : 0));
  const size_t streams = static_cast<size_t>(c.streams);
  const size_t forecast = plan->memory_bytes + streams * stream;
  const size_t taken = executor.most_bytes() - before;
  EXPECT_LE(taken, forecast + (streams + caches) * kHugePageBytes);
  EXPECT_GE(taken, forecast / kMemoryBound);
}

INSTANTIATE_TEST_SUITE_P(Kinds, ForecastTest, ::testing::ValuesIn(kCases), [](const auto& info) {
  std::string name = info.param.name;
  std::erase_if(name, [](char c) { return c == ' ' || c == ','; });
  return name;
});

}  // namespace
}  // namespace upscaled
