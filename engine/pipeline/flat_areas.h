// Parts of a pass without a computation, since they equal the result of a flat area: planned band
// by band from the decoded pixels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/geometry.h"
#include "engine/image/image.h"
#include "engine/pipeline/cell_cover.h"
#include "engine/pipeline/flat_cells.h"
#include "engine/pipeline/flat_results.h"
#include "engine/pipeline/pass_spec.h"
#include "engine/pipeline/tile_run.h"
#include "engine/pipeline/tta_tile.h"

namespace upscaled {

// A tile of a band, in its computed parts; the rest of it is copied.
using TileParts = std::vector<TileVariants>;

// An area of the image, in source pixels, and the result copied to it.
struct FlatArea {
  Rect area;
  FlatResult* result;
};

class FlatAreas {
 public:
  // No more parts than these are made of a tile.
  static constexpr size_t kMaxParts = 16;

  // Whether the pass can have any; their memory if so.
  static bool Apply(const PassSpec& pass);
  // Whether a pass of tiles could have any as one of rows; adds to the scratch memory of each
  // Stream.
  static bool ApplyInRows(const PassSpec& tiles, RowStreamNeed& need);
  static size_t Bytes(const PassSpec& pass, int band_rows);
  // The bytes of CutOut's result for a band.
  static size_t AreaBytes(const PassSpec& pass);

  explicit FlatAreas(const PassSpec& pass);

  // Cuts flat areas out of a band's `tiles`, whole until then, if this costs less. Returns the
  // areas to copy instead, once the results are computed. No result is of a band before
  // `oldest_band`. `rows` holds the image's rows from `first_row` on for this band.
  std::vector<FlatArea> CutOut(const ImageView& rows, int first_row, int band,
                               const Rect& band_rect, int oldest_band, std::span<TileParts> tiles);

 private:
  struct Band;

  TileCells CellsOf(const Rect& tile, const Band& band) const;
  void CutOutOf(TileParts& tile, const Band& band, std::vector<FlatArea>& areas) const;
  // The cells of a tile outside all of its parts.
  static void AddCopied(const TileParts& parts, const TileCells& cells, const Band& band,
                        std::vector<FlatArea>& areas);

  const PassSpec& pass_;
  const SmallImage small_;
  const CellGrid grid_;
  const RectCost cost_;
  FlatResults results_;
};

}  // namespace upscaled
