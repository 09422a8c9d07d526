#include "engine/pipeline/flat_cells.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "engine/base/int_math.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::RandomInt;

CellGrid Grid(int cell_px, int halo_px, int block_px = 1) {
  return {cell_px, block_px, Expand({0, 0, cell_px, cell_px}, halo_px)};
}

FlatCells FindAll(const ImageView& image, const CellGrid& grid) {
  return FindFlatCells(image, 0, {0, 0, image.width_px(), image.height_px()}, grid);
}

Image Plain(const ImageSpec& spec, uint8_t value) {
  Image image(spec);
  std::memset(image.mutable_view().data, value, image.bytes());
  return image;
}

// By the definition: all pixels of the cells in reach of a cell repeat the first one's block, and
// the row holds all of them.
bool IsFlat(const ImageView& image, const Rect& in_reach, int block_px) {
  const Rect cells = Intersect(in_reach, {0, 0, image.width_px(), image.height_px()});
  return cells.height >= block_px &&
         RepeatsBlock(image.Crop(cells), image.Crop({cells.x, cells.y, block_px, block_px}),
                      block_px);
}

TEST(FlatCells, FindsAllOfAPlainImageWithItsBorders) {
  for (const int channels : {3, 4}) {
    const Image image = Plain({61, 43, channels, SampleType::kU8}, 7);
    const FlatCells flat = FindAll(image.view(), Grid(8, 9));
    ASSERT_EQ(flat.blocks.size(), 1u);
    EXPECT_EQ(flat.blocks[0].flat_px, 61 * 43);
    EXPECT_EQ(flat.cells, (Rect{0, 0, 8, 6}));
  }
}

TEST(FlatCells, OnePixelSpoilsAllThatItReaches) {
  Image image = Plain({200, 200, 3, SampleType::kU16}, 1);
  image.mutable_view().row_as<uint16_t>(100)[3 * 100 + 2] ^= 1;
  const FlatCells flat = FindAll(image.view(), Grid(8, 7));
  // The cell of (100, 100) is (12, 12); a halo of 7 touches its neighbours.
  for (int row = 0; row < 25; ++row) {
    for (int column = 0; column < 25; ++column) {
      const bool near = std::abs(row - 12) <= 1 && std::abs(column - 12) <= 1;
      EXPECT_EQ(flat.BlockOf(column, row) == FlatCells::kNone, near) << column << ", " << row;
    }
  }
}

TEST(FlatCells, LooksAtColoursAlone) {
  Image image = Plain({64, 64, 4, SampleType::kU8}, 200);
  for (int y = 0; y < 64; ++y) {
    for (int x = 0; x < 64; ++x) image.mutable_view().row(y)[4 * x + 3] = x + y;
  }
  EXPECT_EQ(FindAll(image.view(), Grid(8, 5)).blocks.at(0).flat_px, 64 * 64);
}

TEST(FlatCells, AreThoseOfTheDefinition) {
  std::mt19937 random = test::FreshRandom();
  int64_t flat_cells = 0;
  for (int round = 0; round < 40; ++round) {
    const Image image =
        test::PlainGroundImage({RandomInt(random, 1, 400), RandomInt(random, 1, 400), 3,
                                round % 2 ? SampleType::kU8 : SampleType::kU16},
                               random);
    const int cell_px = RandomInt(random, 4, 12);
    const int left = RandomInt(random, 1, 30), above = RandomInt(random, 1, 30);
    const Rect input{-left, -above, left + cell_px + RandomInt(random, 1, 30),
                     above + cell_px + RandomInt(random, 1, 30)};
    // A band, with the rows that it depends on.
    const int height = image.spec().height_px, top = RandomInt(random, 0, height - 1);
    const Rect band{0, top, image.spec().width_px, RandomInt(random, 1, height - top)};
    const Rect read =
        Intersect({0, band.y + input.y, band.width, band.height + input.height - cell_px},
                  {0, 0, band.width, height});
    const ImageView rows = image.view().Crop(read);
    const FlatCells flat = FindFlatCells(rows, read.y, band, {cell_px, 1, input});
    for (int row = flat.cells.y; row < flat.cells.bottom(); ++row) {
      for (int column = 0; column < flat.cells.width; ++column) {
        const Rect cell{cell_px * column, cell_px * row, cell_px, cell_px};
        const auto rounded = [&](int px) { return RoundUp(px, cell_px); };
        const int first_x = cell.x - rounded(left), first_y = cell.y - rounded(above) - read.y;
        const Rect in_reach{first_x, first_y, cell.x + rounded(input.right()) - first_x,
                            cell.y - read.y + rounded(input.bottom()) - first_y};
        const bool found = flat.BlockOf(column, row) != FlatCells::kNone;
        EXPECT_EQ(found, IsFlat(rows, in_reach, 1)) << column << ", " << row;
        flat_cells += found;
        if (!found) continue;
        const FlatCells::Block& block = flat.blocks[flat.BlockOf(column, row)];
        EXPECT_TRUE(RepeatsBlock(image.view().Crop(Intersect(cell, read)),
                                 image.view().Crop({block.x, block.y, 1, 1}), 1));
      }
    }
  }
  EXPECT_GT(flat_cells, 100);
}

TEST(FlatCells, FindsWhatRepeatsABlock) {
  constexpr int kBlockPx = 12;
  std::mt19937 random = test::FreshRandom();
  const Image block = test::RandomImage({kBlockPx, kBlockPx, 3, SampleType::kU16}, random);
  Image image({200, 150, 3, SampleType::kU16});
  for (int y = 0; y < 150; ++y) {
    for (int x = 0; x < 200; ++x) {
      std::memcpy(image.mutable_view().row(y) + 6 * x,
                  block.view().row(y % kBlockPx) + 6 * (x % kBlockPx), 6);
    }
  }
  image.mutable_view().row(75)[6 * 99] ^= 1;  // in cell (8, 6)
  const FlatCells flat = FindAll(image.view(), Grid(kBlockPx, 10, kBlockPx));
  EXPECT_EQ(flat.cell_px, kBlockPx);
  for (int row = 0; row < 10; ++row) {
    for (int column = 0; column < 16; ++column) {
      const bool near = std::abs(row - 6) <= 1 && std::abs(column - 8) <= 1;
      EXPECT_EQ(flat.BlockOf(column, row) == FlatCells::kNone, near) << column << ", " << row;
    }
  }
}

}  // namespace
}  // namespace upscaled
