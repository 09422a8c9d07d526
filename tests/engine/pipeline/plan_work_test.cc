// The work that images of people's sizes are planned for, next to one tile's: no pixel is run.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/model/repository.h"
#include "engine/pipeline/tile_grid.h"
#include "engine/pipeline/upscaler.h"
#include "tests/engine/backends/random_network.h"
#include "tests/engine/backends/tested_devices.h"

namespace upscaled {
namespace {

constexpr Size kSizes[] = {{256, 192},   {640, 360},   {853, 480},  {1280, 720},
                           {1920, 1080}, {2560, 1440}, {3840, 2160}};

double WorkOf(const Executable& executable, const Rect& tile, Size image) {
  return static_cast<double>(executable.Plan(tile, image).Cost(/*cached=*/false));
}

Rect WholeOf(Size image) { return {0, 0, image.width, image.height}; }

// Work of all tiles of the pass, each planned.
double WorkOf(const PassSpec& pass) {
  const Size image = pass.source.size();
  if (pass.rows) return WorkOf(*pass.executable, WholeOf(image), image);
  const TileGrid grid(image, pass.tile);
  double work = 0;
  for (int row = 0; row < grid.rows(); ++row) {
    for (int column = 0; column < grid.columns(); ++column) {
      work += WorkOf(*pass.executable, grid.Tile(column, row), image);
    }
  }
  return work;
}

// Expects every image to cost up to `most` times as much as one tile, and the plan to say so.
void ExpectWork(const Network& network, double most) {
  const auto backend = test::CreateTestedBackend("cpu", {.threads = 1});
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto executable = (*backend)->Compile(network, Precision::kExact);
  ASSERT_TRUE(executable.ok()) << executable.status();
  for (const int streams : {1, 2}) {
    for (const Size size : kSizes) {
      SCOPED_TRACE(::testing::Message() << network.name << ", " << size.width << "x" << size.height
                                        << ", " << streams << " streams");
      const ImageSpec spec{size.width, size.height, 3, SampleType::kU8};
      const Size result{size.width * network.scale, size.height * network.scale};
      const auto plan = PlanUpscale(spec, result, {*executable}, {.concurrency = streams});
      ASSERT_TRUE(plan.ok()) << plan.status();
      const double work = WorkOf(plan->passes.front());
      EXPECT_LE(work, most * WorkOf(**executable, WholeOf(size), size));
      EXPECT_NEAR(static_cast<double>(plan->cost), work, 0.03 * work);
    }
  }
}

Network Chain(int layers) {
  Network network = test::InputAlone();
  for (int i = 0; i < layers; ++i) test::AppendConv(network, 64, 3);
  test::AppendConv(network, 3, 3);
  return network;
}

TEST(PlanWorkTest, DeepNetworksComputeNothingTwice) {
  for (const int layers : {17, 33, 60}) ExpectWork(Chain(layers), 1.03);
}

TEST(PlanWorkTest, TilesOfShallowNetworksCostLittleMore) {
  const auto repository = ModelRepository::Open({"engine/model/bundled"});
  ASSERT_TRUE(repository.ok()) << repository.status();
  for (const ModelCard& card : repository->models()) {
    const auto network = LoadNetwork(card, card.variants.front());
    ASSERT_TRUE(network.ok()) << network.status();
    ExpectWork(*network, 1.15);
  }
}

// A row of 1920 pixels has too few columns for 64 threads: tiles that cost a fifth more are faster.
TEST(PlanWorkTest, ManyThreadsTakeTiles) {
  const auto repository = ModelRepository::Open({"engine/model/bundled"});
  ASSERT_TRUE(repository.ok()) << repository.status();
  const auto card = repository->Find("general-2x");
  ASSERT_TRUE(card.ok()) << card.status();
  const auto network = LoadNetwork(**card, (*card)->variants.front());
  ASSERT_TRUE(network.ok()) << network.status();
  const auto backend = test::CreateTestedBackend("cpu", {.threads = 1});
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto executable = (*backend)->Compile(*network, Precision::kExact);
  ASSERT_TRUE(executable.ok()) << executable.status();
  const auto plan = PlanUpscale({1920, 1080, 3, SampleType::kU8}, {3840, 2160}, {*executable},
                                {.concurrency = 64});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_FALSE(plan->passes.front().rows.has_value());
  EXPECT_GE(plan->tile_count, 64);
}

}  // namespace
}  // namespace upscaled
