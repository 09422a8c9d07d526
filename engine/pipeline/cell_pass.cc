#include "engine/pipeline/cell_pass.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/graph/pooling.h"
#include "engine/image/convert.h"
#include "engine/pipeline/alpha_rows.h"
#include "engine/pipeline/dihedral.h"
#include "engine/pipeline/image_run.h"
#include "engine/pipeline/network_pass.h"
#include "engine/pipeline/row_spec.h"
#include "engine/pipeline/tta_tile.h"

namespace upscaled {
namespace {

constexpr size_t kCellPassBytes = 4096;  // everything small
constexpr size_t kBytesPerCell = 16;     // while it waits

int SlotCount(const CellLattice& cells) { return std::min(2, cells.y.count()); }

ImageSpec SourceOf(const PassSpec& pass) {
  return WithHeight(pass.source, pass.cells->y.cell_length());
}

ImageSpec ResultsOf(const PassSpec& pass) {
  const int scale = pass.executable->network().scale;
  const CellLattice& cells = *pass.cells;
  return {cells.x.count() * cells.cell().width * scale, cells.cell().height * scale, kRgbChannels,
          SampleType::kU16};
}

ImageSpec BlendedRow(const PassSpec& pass) {
  return {PassResult(pass).width_px, 1, kRgbChannels, SampleType::kU16};
}

int VariantCount(const PassSpec& pass) { return pass.tta ? Dihedral::kCount : 1; }

// Two results and the place between them: of `whole` parts the second one has `share`.
struct Between {
  uint64_t share, whole;

  uint64_t Mix(uint64_t first, uint64_t second) const {
    return first * (whole - share) + second * share;
  }
};

}  // namespace

int64_t CellPassTileCount(const PassSpec& pass) {
  const int64_t runs = 1 + std::ssize(ListPoolings(pass.executable->network()));
  return pass.cells->count() * runs * pass.images() * VariantCount(pass);
}

int CellPassReadAheadRows(const PassSpec& pass) {
  return std::min(pass.source.height_px, 2 * pass.cells->y.cell_length());
}

double CellPassCost(const PassSpec& pass) {
  const Size cell = pass.cells->cell();
  return ImageRun::Cost(*pass.executable, cell, cell, /*cached_tiles=*/1) *
         static_cast<double>(pass.cells->count() * pass.images() * VariantCount(pass));
}

Stage PlanCellPass(const PassSpec& pass) {
  const Size cell = pass.cells->cell();
  const Executable& executable = *pass.executable;
  const size_t slot = ImageBytes(SourceOf(pass)) + ImageBytes(ResultsOf(pass)) +
                      kBytesPerCell * static_cast<size_t>(pass.cells->x.count());
  size_t in_flight =
      ImageRun::BytesPerTile(executable) + ImageRun::CacheBytes(executable, cell, cell, pass.tta);
  if (pass.tta) {
    in_flight += TtaTile::Bytes(cell, cell, executable.network().scale, pass.source.type) +
                 Dihedral::kCount * executable.Plan({0, 0, cell.width, cell.height}, cell).bytes();
  }
  const size_t alpha_row = sizeof(float) * static_cast<size_t>(pass.source.width_px);
  return {{.source = pass.source,
           .result = PassResult(pass),
           .border_px = pass.reach.halo_px(),
           .memory_bytes = slot * static_cast<size_t>(SlotCount(*pass.cells)) +
                           in_flight * static_cast<size_t>(pass.cells_in_flight) +
                           ImageBytes(BlendedRow(pass)) + alpha_row + kCellPassBytes},
          [pass](RowSource& rows, TileRun& run) {
            return std::make_unique<CellPass>(pass, rows, run);
          }};
}

CellPass::CellPass(const PassSpec& pass, RowSource& source, TileRun& run)
    : pass_(pass),
      cells_(*pass.cells),
      result_(PassResult(pass)),
      scale_(pass.executable->network().scale),
      source_(source),
      run_(run),
      slots_(static_cast<size_t>(SlotCount(cells_))),
      row_(BlendedRow(pass)) {
  UPSCALED_CHECK(source.spec() == pass.source);
  for (Slot& slot : slots_) {
    slot.source = Image(SourceOf(pass));
    slot.result = Image(ResultsOf(pass));
  }
}

absl::Status CellPass::ReadRows(MutableImageView rows) {
  UPSCALED_CHECK(rows.height_px() <= result_.height_px - next_row_);
  for (int i = 0; i < rows.height_px(); ++i, ++next_row_) {
    if (next_row_ == cells_.y.ResultBegin(band_ + 1) * scale_) ++band_;
    RETURN_IF_ERROR(SubmitBandsAhead());
    if (bands_ready_ == band_) {
      RETURN_IF_ERROR(run_.Await(SlotOf(band_).cells));
      ++bands_ready_;
    }
    const MutableImageView row = rows.Crop({0, i, result_.width_px, 1});
    BlendRow(next_row_, row_.mutable_view().row_as<uint16_t>(0));
    ConvertPixels(row_.view(), row);
    if (result_.has_alpha()) {
      EnlargeAlpha(SlotOf(band_).source.view(), cells_.y.Begin(band_), pass_.source.height_px,
                   scale_, row, next_row_);
    }
  }
  return absl::OkStatus();
}

absl::Status CellPass::SubmitBandsAhead() {
  const int blend_end = (cells_.y.ResultBegin(band_) + CellAxis::kBlendPx) * scale_;
  const int oldest = band_ > 0 && next_row_ < blend_end ? band_ - 1 : band_;
  const int end = std::min(cells_.y.count(), oldest + static_cast<int>(slots_.size()));
  for (; bands_submitted_ < end; ++bands_submitted_) {
    RETURN_IF_ERROR(run_.status());
    if (absl::Status status = ReadSource(bands_submitted_); !status.ok()) {
      run_.Stop(status);
      return status;
    }
    run_.Add(SlotOf(bands_submitted_).cells, cells_.x.count());
    {
      absl::MutexLock lock(&mutex_);
      for (int column = 0; column < cells_.x.count(); ++column) {
        waiting_.push_back({bands_submitted_, column});
      }
    }
    StartCells();
  }
  return absl::OkStatus();
}

absl::Status CellPass::ReadSource(int band) {
  const MutableImageView rows = SlotOf(band).source.mutable_view();
  int shared = 0;  // rows that the band before has read
  if (band > 0) {
    const ImageView before = SlotOf(band - 1).source.view();
    shared = cells_.y.Begin(band - 1) + rows.height_px() - cells_.y.Begin(band);
    for (int y = 0; y < shared; ++y) {
      std::memcpy(rows.row(y), before.row(rows.height_px() - shared + y), rows.spec.row_bytes());
    }
  }
  return source_.ReadRows(rows.Crop({0, shared, rows.width_px(), rows.height_px() - shared}));
}

void CellPass::StartCells() {
  while (true) {
    const bool goes_on = run_.status().ok();
    Cell cell;
    {
      absl::MutexLock lock(&mutex_);
      if (waiting_.empty() || in_flight_ == pass_.cells_in_flight) return;
      cell = waiting_.front();
      waiting_.pop_front();
      if (goes_on) ++in_flight_;
    }
    if (goes_on) {
      Start(cell);
    } else {
      run_.Finish(SlotOf(cell.band).cells);
    }
  }
}

void CellPass::Start(const Cell& cell) {
  Slot& slot = SlotOf(cell.band);
  const Size size = cells_.cell();
  const ImageView src =
      slot.source.view().Crop({cells_.x.Begin(cell.column), 0, size.width, size.height});
  const MutableImageView dst = slot.result.mutable_view().Crop(
      Scale(Rect{cell.column * size.width, 0, size.width, size.height}, scale_));
  if (pass_.tta) {
    const Rect whole{0, 0, size.width, size.height};
    const auto tile = std::make_shared<TtaTile>(size, size, scale_, pass_.source.type);
    TtaTask task{.variants = PlanVariants(*pass_.executable, whole, size, /*tta=*/true),
                 .src = src,
                 .dst = dst,
                 .is_image = true};
    tile->Start(run_, pass_.executable, {std::move(task)}, [this, cell, tile] { End(cell); });
    return;
  }
  ImageRun::Start(
      std::make_shared<ImageRun>(*pass_.executable, CutImage(*pass_.executable, src, dst, size),
                                 /*cached_tiles=*/1),
      [this](std::vector<TileTask> tiles, TileExecutor::TileDone done) {
        run_.Submit(pass_.executable, std::move(tiles), std::move(done));
      },
      [this, cell](const absl::Status&) { End(cell); });
}

void CellPass::End(const Cell& cell) {
  {
    absl::MutexLock lock(&mutex_);
    --in_flight_;
  }
  StartCells();
  // Behind it this object may be gone.
  run_.Finish(SlotOf(cell.band).cells);
}

const uint16_t* CellPass::PixelOf(const Cell& cell, int x, int y) const {
  const ImageView results = SlotOf(cell.band).result.view();
  const int left = (cell.column * cells_.x.cell_length() - cells_.x.Begin(cell.column)) * scale_;
  return results.row_as<uint16_t>(y - cells_.y.Begin(cell.band) * scale_) +
         ptrdiff_t{kRgbChannels} * (left + x);
}

void CellPass::BlendRow(int y, uint16_t* to) const {
  const int blend_px = CellAxis::kBlendPx * scale_;
  const auto whole = static_cast<uint64_t>(2 * blend_px);
  const int from_top = y - cells_.y.ResultBegin(band_) * scale_;
  const bool blends_rows = band_ > 0 && from_top < blend_px;
  const int above = blends_rows ? band_ - 1 : band_;
  const Between rows{blends_rows ? static_cast<uint64_t>(2 * from_top + 1) : whole, whole};

  // Pixels [begin, end) of two columns, possibly the same one. The second one's share grows from
  // the left.
  const auto blend = [&](int first, int second, int begin, int end) {
    const uint16_t* a = PixelOf({above, first}, begin, y);
    const uint16_t* b = PixelOf({above, second}, begin, y);
    const uint16_t* c = PixelOf({band_, first}, begin, y);
    const uint16_t* d = PixelOf({band_, second}, begin, y);
    for (int x = begin; x < end; ++x) {
      const uint64_t share = first == second ? whole : static_cast<uint64_t>(2 * (x - begin) + 1);
      const Between columns{share, whole};
      for (int channel = 0; channel < kRgbChannels; ++channel) {
        const uint64_t sum = rows.Mix(columns.Mix(*a++, *b++), columns.Mix(*c++, *d++));
        to[kRgbChannels * x + channel] =
            static_cast<uint16_t>((sum + whole * whole / 2) / (whole * whole));
      }
    }
  };

  for (int column = 0; column < cells_.x.count(); ++column) {
    int begin = cells_.x.ResultBegin(column) * scale_;
    const int end = cells_.x.ResultBegin(column + 1) * scale_;
    if (column > 0) {
      blend(column - 1, column, begin, begin + blend_px);
      begin += blend_px;
    }
    if (blends_rows) {
      blend(column, column, begin, end);
    } else {
      std::memcpy(to + ptrdiff_t{kRgbChannels} * begin, PixelOf({band_, column}, begin, y),
                  sizeof(uint16_t) * kRgbChannels * static_cast<size_t>(end - begin));
    }
  }
}

}  // namespace upscaled
