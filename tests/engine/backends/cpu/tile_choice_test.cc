#include "engine/backends/cpu/tile_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/backends/cpu/cpu_executable.h"
#include "engine/backends/cpu/row_schedule.h"
#include "engine/base/cpu_info.h"
#include "tests/engine/backends/random_network.h"
#include "tests/support/test_image.h"

namespace upscaled::cpu {
namespace {

constexpr size_t kSmallCache = size_t{1} << 20, kEndlessCache = size_t{1} << 40;

// `depth` valid 3x3 convolutions to this many channels, and one to three.
Network Chain(int depth, int channels) {
  Network network = test::InputAlone();
  for (int i = 0; i <= depth; ++i) {
    test::AppendConv(network, i < depth ? channels : 3, 3);
    network.layers.back().padding_px = 0;
  }
  network.pad_px = depth + 1;
  return network;
}

Program ProgramOf(const Network& network) {
  absl::StatusOr<Program> program =
      BuildProgram(network, ListIsas().front(), /*forced=*/nullptr, Precision::kExact);
  EXPECT_TRUE(program.ok()) << program.status();
  return *std::move(program);
}

std::vector<Size> Rank(const Program& program, size_t cache_bytes) {
  absl::StatusOr<std::vector<Size>> tiles = RankTiles(program, cache_bytes);
  EXPECT_TRUE(tiles.ok()) << tiles.status();
  return *std::move(tiles);
}

TEST(RankTilesTest, WideTilesAreBestWhereAllStaysInCache) {
  const std::vector<Size> tiles = Rank(ProgramOf(Chain(4, 32)), kEndlessCache);
  EXPECT_EQ(tiles.front(), (Size{960, 540}));
  EXPECT_TRUE(
      std::is_sorted(tiles.begin(), tiles.end(), [](Size a, Size b) { return a.width > b.width; }));
}

TEST(RankTilesTest, NarrowOnesAreBestWhereTheirRowsStayInCacheAlone) {
  const Program program = ProgramOf(Chain(4, 32));
  const std::vector<Size> narrow = Rank(program, kSmallCache);
  EXPECT_LT(narrow.front().width, 960);
  EXPECT_EQ(narrow.front().height, 540);
  const auto by_width = [](Size a, Size b) { return a.width < b.width; };
  std::vector<Size> all = Rank(program, kEndlessCache), same = narrow;
  std::sort(all.begin(), all.end(), by_width);
  std::sort(same.begin(), same.end(), by_width);
  EXPECT_EQ(all, same) << "another order, not other tiles";
}

TEST(RankTilesTest, LargeNetworksGetTilesOfTheSameAreaAtMost) {
  const std::vector<Size> tiles = Rank(ProgramOf(Chain(6, 128)), kSmallCache);
  const auto widest = *std::max_element(tiles.begin(), tiles.end(),
                                        [](Size a, Size b) { return a.width < b.width; });
  EXPECT_LT(widest.width, 960);
  for (const Size tile : tiles) EXPECT_LE(tile.Area(), widest.Area());
}

TEST(RankTilesTest, NoTileTakesMuchMemory) {
  std::mt19937 random = test::FreshRandom();
  for (int i = 0; i < 20; ++i) {
    const Network network = test::RandomNetwork(random);
    SCOPED_TRACE(test::Describe(network));
    const Program program = ProgramOf(network);
    for (const Size tile : Rank(program, kSmallCache)) {
      const size_t limit = size_t{program.poolings.empty() ? 64u : 192u} << 20;
      EXPECT_LE(WorkspaceOf(program, InnerTile(tile)), limit);
      EXPECT_LE(WorkspaceOf(program, InnerTile({tile.height, tile.width})), limit);
    }
  }
}

// Chooses the shipped kernels.
class TileChooser : public KernelChooser {
 public:
  std::string Choose(const KernelCandidates& candidates) override {
    return candidates.names().front();
  }
};

// Records the offered candidates, runs them, and chooses the last.
class LastTile final : public TileChooser {
 public:
  Size ChooseTile(TileCandidates& candidates) override {
    network = candidates.network();
    tiles = candidates.tiles();
    for (const Size tile : tiles) {
      const double pixels = candidates.Run(tile);
      EXPECT_GE(pixels, tile.width);
      EXPECT_LE(pixels, static_cast<double>(tile.Area()));
    }
    EXPECT_GT(candidates.MacsPerPixel(), 0);
    EXPECT_THAT(candidates.device(), ::testing::StartsWith("cpu, "));
    return tiles.back();
  }

  std::string network;
  std::vector<Size> tiles;
};

TEST(ChooseTileTest, TheChooserDecides) {
  std::mt19937 random = test::FreshRandom();
  int offers = 0;
  for (const Network& network :
       {Chain(3, 16), test::RandomNetwork(random), test::RandomPooledNetwork(random, 5e3)}) {
    SCOPED_TRACE(test::Describe(network));
    LastTile chooser;
    const auto executable =
        CpuExecutable::Create(network, ListIsas().front(), nullptr, Precision::kExact, &chooser);
    ASSERT_TRUE(executable.ok()) << executable.status();
    if (chooser.tiles.empty()) continue;  // nothing to choose from
    ++offers;
    EXPECT_GE(chooser.tiles.size(), 2u);
    EXPECT_EQ((*executable)->PreferredTile(), chooser.tiles.back());
  }
  EXPECT_GE(offers, 1) << "for the chain at least";
}

TEST(ChooseTileTest, AForcedKernelKeepsTheShippedTile) {
  LastTile chooser;
  const auto executable = CpuExecutable::Create(Chain(3, 16), ListIsas().front(),
                                                FindKernel("direct"), Precision::kExact, &chooser);
  ASSERT_TRUE(executable.ok()) << executable.status();
  EXPECT_TRUE(chooser.tiles.empty());
}

TEST(ChooseTileTest, ACandidateThatFindsNoMemoryKeepsTheShippedTile) {
  class Hungry final : public TileChooser {
   public:
    Size ChooseTile(TileCandidates&) override { throw std::bad_alloc(); }
  } chooser;
  const Network network = Chain(3, 16);
  const auto executable =
      CpuExecutable::Create(network, ListIsas().front(), nullptr, Precision::kExact, &chooser);
  ASSERT_TRUE(executable.ok()) << executable.status();
  EXPECT_EQ((*executable)->PreferredTile(), Rank(ProgramOf(network), CoreCacheBytes()).front());
}

// Every layer computes more rows around a part than around the tile, in proportion.
TEST(ChooseTileTest, APartIsWorthMoreThanItsPixels) {
  class Worth final : public TileChooser {
   public:
    Size ChooseTile(TileCandidates& candidates) override {
      for (const Size tile : candidates.tiles()) {
        constexpr int kRows = 48;
        EXPECT_GT(candidates.Run(tile), 1.2 * kRows * tile.width);
      }
      return candidates.tiles().front();
    }
  } chooser;
  EXPECT_TRUE(
      CpuExecutable::Create(Chain(12, 16), ListIsas().front(), nullptr, Precision::kExact, &chooser)
          .ok());
}

TEST(RankTilesTest, NetworksThatMultiplyByNothingHaveTilesToo) {
  EXPECT_EQ(Rank(ProgramOf(test::InputAlone()), kSmallCache).front().height, 540);
}

TEST(ChooseTileTest, TimesAreKeptByWhatTheyDependOn) {
  const auto name_of = [](const Network& network) {
    LastTile chooser;
    EXPECT_TRUE(
        CpuExecutable::Create(network, ListIsas().front(), nullptr, Precision::kExact, &chooser)
            .ok());
    return chooser.network;
  };
  EXPECT_EQ(name_of(Chain(2, 16)),
            absl::StrCat("exact tiles of 4 layers, ", 9 * (3 * 16 + 16 * 16 + 16 * 3),
                         " multiply-adds a pixel"));
  EXPECT_NE(name_of(Chain(2, 16)), name_of(Chain(2, 32)));
}

// A stream of a network with a stage for each pass needs the same memory as its tiles, no more.
TEST(WorkspaceTest, IsWhatTilesOfManyPoolingsNeed) {
  const auto executable = CpuExecutable::Create(test::NormalisedNetwork(9), ListIsas().front(),
                                                nullptr, Precision::kExact, /*chooser=*/nullptr);
  ASSERT_TRUE(executable.ok()) << executable.status();
  const Program& program = static_cast<const CpuExecutable&>(**executable).program();
  ASSERT_TRUE(program.HasStageForEachPass());
  const Size image{64, 48};
  const size_t bytes = (*executable)->WorkspaceBytes(image);
  EXPECT_LT(bytes, kMaxWorkspaceBytes / 8);
  const TilePlan plan = (*executable)->Plan({0, 0, image.width, image.height}, image);
  for (size_t pass = 0; pass <= program.poolings.size(); ++pass) {
    for (const bool keeps : {false, true}) {
      EXPECT_LE(ScheduleRows(program, plan, pass, keeps).workspace_floats * sizeof(float), bytes);
    }
  }
}

TEST(WorkspaceTest, IsWhatAnImageInOneTileNeeds) {
  const auto executable = CpuExecutable::Create(test::NormalisedNetwork(9), ListIsas().front(),
                                                nullptr, Precision::kExact, /*chooser=*/nullptr);
  ASSERT_TRUE(executable.ok()) << executable.status();
  const Program& program = static_cast<const CpuExecutable&>(**executable).program();
  const Size tile = (*executable)->PreferredTile();
  for (const Size image : {Size{2 * tile.width, tile.height}, Size{tile.width, 2 * tile.height}}) {
    ASSERT_TRUE((*executable)->ComputesWhole(image));
    const size_t bytes = (*executable)->WorkspaceBytes(image);
    EXPECT_GE(bytes, WorkspaceOf(program, WholeImage(image)));
    EXPECT_LT(bytes, kMaxWorkspaceBytes / 2);
  }
}

// With tta an image is computed turned as well, and rings are as long as it is wide.
TEST(WorkspaceTest, HasRoomForAnImageTurned) {
  const auto executable = CpuExecutable::Create(test::NormalisedNetwork(9), ListIsas().front(),
                                                nullptr, Precision::kExact, /*chooser=*/nullptr);
  ASSERT_TRUE(executable.ok()) << executable.status();
  const Program& program = static_cast<const CpuExecutable&>(**executable).program();
  constexpr int kShort = 16;
  int length = 10'000;
  while (WorkspaceOf(program, WholeImage({length, kShort})) <= kMaxWorkspaceBytes) length += 10'000;
  EXPECT_FALSE((*executable)->ComputesWhole({length, kShort}));
  EXPECT_FALSE((*executable)->ComputesWhole({kShort, length}));
}

}  // namespace
}  // namespace upscaled::cpu
