// One network over an image in cells (cells.h).
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "engine/image/image.h"
#include "engine/image/row_source.h"
#include "engine/pipeline/cells.h"
#include "engine/pipeline/pass_rows.h"
#include "engine/pipeline/pass_spec.h"
#include "engine/pipeline/stage.h"
#include "engine/pipeline/tile_run.h"

namespace upscaled {

// The functions of network_pass.h for passes with cells. A cell counts as many times as its network
// runs over it: once for each global pooling and for the result, of each variant of TTA.
int64_t CellPassTileCount(const PassSpec& pass);
int CellPassReadAheadRows(const PassSpec& pass);
Stage PlanCellPass(const PassSpec& pass);
// The multiply-adds of all cells of all the pass's images.
double CellPassCost(const PassSpec& pass);

// Holds two bands at a time, a row of cells each. While one is read out, the cells of the next one
// are computed, PassSpec::cells_in_flight at a time. Each cell is one tile, so no work is done
// twice. With TTA each variant of a cell is an image of its own.
class CellPass final : public PassRows {
 public:
  // As NetworkPass; `pass` has cells.
  CellPass(const PassSpec& pass, RowSource& source, TileRun& run);

  const ImageSpec& spec() const override { return result_; }
  absl::Status ReadRows(MutableImageView rows) override;
  absl::Status SubmitBandsAhead() override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Slot {
    Image source;  // the rows that the band's cells see
    Image result;  // the results of its cells side by side, kU16
    TileRun::Group cells;
  };
  struct Cell {
    int band = 0;
    int column = 0;
  };

  Slot& SlotOf(int band) { return slots_[static_cast<size_t>(band) % slots_.size()]; }
  const Slot& SlotOf(int band) const { return slots_[static_cast<size_t>(band) % slots_.size()]; }
  absl::Status ReadSource(int band);
  // Starts waiting cells, as many as may be in flight.
  void StartCells() ABSL_LOCKS_EXCLUDED(mutex_);
  void Start(const Cell& cell);
  void End(const Cell& cell) ABSL_LOCKS_EXCLUDED(mutex_);
  // Row `y` of the result, from a row of `band_` on; RGB of kU16.
  void BlendRow(int y, uint16_t* to) const;
  // Pixel (x, y) of the result as a cell has it.
  const uint16_t* PixelOf(const Cell& cell, int x, int y) const;

  const PassSpec pass_;
  const CellLattice cells_;
  const ImageSpec result_;
  const int scale_;
  RowSource& source_;
  TileRun& run_;
  std::vector<Slot> slots_;
  Image row_;
  int bands_submitted_ = 0;
  int bands_ready_ = 0;
  int band_ = 0;  // being read out
  int next_row_ = 0;

  absl::Mutex mutex_;
  std::deque<Cell> waiting_ ABSL_GUARDED_BY(mutex_);
  int in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace upscaled
