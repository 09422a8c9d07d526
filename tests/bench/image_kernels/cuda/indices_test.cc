// The kernels' index arithmetic, walked through on the host.
#include "tests/bench/image_kernels/cuda/indices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <vector>

namespace upscaled::cuda {
namespace {

constexpr int kWarp = 32;

// How many turns a warp's accesses to words of shared memory take: the most different words in one
// bank.
int Turns(const std::function<int(int lane)>& word_of) {
  std::map<int, std::set<int>> words_of_bank;
  for (int lane = 0; lane < kWarp; ++lane) {
    words_of_bank[word_of(lane) % kBanks].insert(word_of(lane));
  }
  size_t most = 0;
  for (const auto& [bank, words] : words_of_bank) most = std::max(most, words.size());
  return static_cast<int>(most);
}

TEST(TransposeIndicesTest, PaddingTakesTheConflictsAway) {
  for (int line = 0; line < kTile; ++line) {
    const auto along_row = [&](int pitch) {
      return Turns([&](int lane) { return TileIndex(pitch, line, lane); });
    };
    const auto along_column = [&](int pitch) {
      return Turns([&](int lane) { return TileIndex(pitch, lane, line); });
    };
    EXPECT_EQ(along_row(kTile), 1);
    EXPECT_EQ(along_row(kTile + 1), 1);
    EXPECT_EQ(along_column(kTile), kWarp);
    EXPECT_EQ(along_column(kTile + 1), 1);
  }
}

TEST(TransposeIndicesTest, TurnsCoverTheTileOnce) {
  for (const int thread_rows : {8, 16, 32}) {
    for (const int pitch : {kTile, kTile + 1}) {
      std::vector<int> written(kTile * pitch);
      for (int turn = 0; turn < kTile / thread_rows; ++turn) {
        for (int y = 0; y < thread_rows; ++y) {
          for (int x = 0; x < kTile; ++x) {
            ++written.at(TileIndex(pitch, TileRow(y, thread_rows, turn), x));
          }
        }
      }
      EXPECT_EQ(std::count(written.begin(), written.end(), 1), kTile * kTile);
      EXPECT_EQ(*std::max_element(written.begin(), written.end()), 1);
    }
  }
}

TEST(BilateralIndicesTest, ThreadsCoverTheTileAndTheirWindowsTheHalo) {
  for (const BilateralTile& tile : {kBilateralShared, kBilateralSeveral}) {
    for (const int radius : {1, 5, 16}) {
      std::vector<int> computed(tile.columns() * tile.thread_rows);
      std::vector<bool> read(tile.HaloColumns(radius) * tile.HaloRows(radius));
      EXPECT_LE(read.size() * 4, 48u << 10) << "more shared memory than a block has";
      for (int y = 0; y < tile.thread_rows; ++y) {
        for (int x = 0; x < tile.thread_columns; ++x) {
          for (int i = 0; i < tile.pixels_per_thread; ++i) {
            ++computed.at(y * tile.columns() + tile.Pixel(x, i));
            for (int dy = 0; dy <= 2 * radius; ++dy) {
              for (int dx = 0; dx <= 2 * radius; ++dx) {
                read.at(tile.HaloIndex(radius, y + dy, tile.Pixel(x, i) + dx)) = true;
              }
            }
          }
        }
      }
      EXPECT_EQ(std::count(computed.begin(), computed.end(), 1), std::ssize(computed));
      EXPECT_EQ(std::count(read.begin(), read.end(), true), std::ssize(read));
    }
  }
}

TEST(BilateralIndicesTest, AWarpReadsATapOfSeveralPixelsWithoutConflicts) {
  const BilateralTile& tile = kBilateralSeveral;
  for (const int radius : {1, 2, 7, 16}) {
    for (int i = 0; i < tile.pixels_per_thread; ++i) {
      EXPECT_EQ(Turns([&](int lane) {
                  return tile.HaloIndex(radius, lane / tile.thread_columns,
                                        tile.Pixel(lane % tile.thread_columns, i));
                }),
                1);
    }
  }
}

TEST(BlockCountTest, CoversEverythingOnce) {
  EXPECT_EQ(BlockCount(1, 32), 1);
  EXPECT_EQ(BlockCount(32, 32), 1);
  EXPECT_EQ(BlockCount(33, 32), 2);
  EXPECT_EQ(BlockCount(int64_t{1} << 33, kErrorRun), 1 << 22);
}

}  // namespace
}  // namespace upscaled::cuda
