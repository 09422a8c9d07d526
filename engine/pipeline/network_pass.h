// One network over an image that flows by in rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "engine/backends/backend.h"
#include "engine/image/image.h"
#include "engine/image/row_source.h"
#include "engine/pipeline/flat_areas.h"
#include "engine/pipeline/pass_rows.h"
#include "engine/pipeline/pass_spec.h"
#include "engine/pipeline/pooled_image.h"
#include "engine/pipeline/row_run.h"
#include "engine/pipeline/stage.h"
#include "engine/pipeline/tile_grid.h"
#include "engine/pipeline/tile_run.h"
#include "engine/pipeline/tta_tile.h"

namespace upscaled {

ImageSpec PassResult(const PassSpec& spec);
// A tile counts for each of its runs, of all the pass's images; a stream of rows for each of its
// parts (RowRun).
int64_t PassTileCount(const PassSpec& spec);
// Bound on the source rows read from the first row of the band being read out.
int MaxReadAheadRows(const PassSpec& spec);
// The known bands of a pass of rows ahead of the next one, of `height_px` each.
int BandsBelow(const PassSpec& spec, int height_px);
// MakePass as a stage; planning it takes no longer for many tiles.
Stage PlanPass(const PassSpec& spec);

// Cuts the image into bands, a row of tiles each. A slot holds a band's source rows, halo
// included, and its result; while one band is read out, the tiles of the next ones are in flight.
// Flat areas are cut out of the tiles, and their result copied (FlatAreas). A pass of rows has one
// tile a band, and goes through all of them in a RowRun: a band begins once flat areas are known as
// far below as the stream reads ahead.
// A network with global poolings reads all of its source before the first band.
class NetworkPass final : public PassRows {
 public:
  // As MakePass.
  NetworkPass(const PassSpec& spec, RowSource& source, TileRun& run);

  const ImageSpec& spec() const override { return result_; }
  absl::Status ReadRows(MutableImageView rows) override;
  absl::Status SubmitBandsAhead() override;

 private:
  struct Slot {
    Image source;  // rows [source_y, source_end) of the image
    Image result;
    int source_y = 0;
    int source_end = 0;
    std::vector<TtaTile> tta;          // one per tile when TTA is on
    std::vector<FlatArea> flat_areas;  // not copied to `result` yet
    TileVariants band;                 // of a pass of rows: all of it, and the parts to compute
    TileParts parts;
    TileRun::Group tiles;
  };

  Slot& SlotOf(int band) { return slots_[static_cast<size_t>(band) % slots_.size()]; }
  absl::Status SubmitBand(int band);
  // The tiles of a band from left to right.
  std::vector<TileParts> PlanBand(int band) const;
  absl::Status ReadSource(int band, std::span<const TileParts> tiles);
  void CutOutFlatAreas(int band, std::span<TileParts> tiles);
  // Begins a band of a pass of rows, where the parts of `known_bands` are known.
  void SubmitRows(int band, int known_bands);
  std::shared_ptr<const RowParts> PartsFrom(int band, int known_bands);
  void SubmitTiles(int band, std::vector<TileParts> tiles);
  void SubmitTta(int band, int column, TileParts parts);
  void SubmitTasks(int band, std::vector<TileParts> tiles);
  struct PartPixels {
    ImageView src;
    MutableImageView dst;
  };
  PartPixels PixelsOf(int band, const TileVariants& part);
  int64_t TileNumber(int band, int column) const {
    return int64_t{1} * band * grid_.columns() + column;
  }
  void CopyFlatAreas(int band);
  void CopyOut(const Slot& slot, const Rect& band, MutableImageView rows) const;

  const PassSpec pass_;
  const ImageSpec result_;
  const int scale_;
  const TileGrid grid_;
  TileRun& run_;
  std::optional<PooledImage> pooled_;  // between the source and the bands
  std::optional<FlatAreas> flat_areas_;
  std::optional<RowRun> rows_;
  RowSource& source_;
  std::vector<Slot> slots_;
  int bands_submitted_ = 0;  // read and planned, in a pass of rows
  int rows_submitted_ = 0;   // bands
  int band_ = 0;             // being read out
  int next_row_ = 0;
};

}  // namespace upscaled
