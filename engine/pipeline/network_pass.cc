#include "engine/pipeline/network_pass.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/int_math.h"
#include "engine/base/status_macros.h"
#include "engine/graph/pooling.h"
#include "engine/pipeline/alpha_rows.h"
#include "engine/pipeline/cell_pass.h"
#include "engine/pipeline/dihedral.h"
#include "engine/pipeline/row_spec.h"

namespace upscaled {
namespace {

constexpr size_t kPassOverheadBytes = 4096;  // everything small

// The source rows for a band of these tiles: a rectangle of the image's full width. It holds the
// band itself, so the bands leave no row out.
Rect BandInput(const PassSpec& pass, const Rect& band, std::span<const TileParts> tiles) {
  const int margin = pass.source.has_alpha() ? kAlphaHaloPx : 0;
  Rect input = Expand(band, margin);
  for (const TileParts& tile : tiles) input = Cover(input, tile.front().input);
  // Whole blocks of flat areas.
  const int top = FloorDiv(input.y, pass.source_repeat_px) * pass.source_repeat_px;
  const int bottom = RoundUp(input.bottom(), pass.source_repeat_px);
  return Intersect({0, top, pass.source.width_px, bottom - top},
                   {0, 0, pass.source.width_px, pass.source.height_px});
}

// No tile of this size needs more of the source, wherever it lies and however the image is
// turned.
Size MaxInput(const PassSpec& pass, Size tile) {
  const Size image = pass.source.size();
  const Halo& halo = pass.reach.halo;
  if (halo.Largest() >= kWholeImageHaloPx) return image;
  return {std::min(image.width, halo.left_px + tile.width + halo.right_px),
          std::min(image.height, halo.top_px + tile.height + halo.bottom_px)};
}

// Nor does a band need more rows, with the rows that the band before has read already.
int MaxInputRows(const PassSpec& pass, const TileGrid& grid) {
  const int height = grid.tile_size().height;
  const int margin = pass.source.has_alpha() ? kAlphaHaloPx : 0;
  const int rows = std::max(MaxInput(pass, grid.tile_size()).height, height + 2 * margin);
  return std::min(pass.source.height_px, rows + 2 * (pass.source_repeat_px - 1));
}

// Whether variants of TTA are images of their own, each in one tile, whose poolings a cache helps.
bool VariantsAreImages(const PassSpec& pass) { return pass.tta && pass.cached_tiles > 0; }

// Whether the pass gathers poolings from all of its source, which it holds.
bool Gathers(const PassSpec& pass) {
  return !VariantsAreImages(pass) && !ListPoolings(pass.executable->network()).empty();
}

size_t PoolingBytes(const PassSpec& pass) {
  if (Gathers(pass)) return PooledImage::Bytes(pass);
  if (!VariantsAreImages(pass)) return 0;
  return ImageRun::BytesPerTile(*pass.executable) +
         ImageRun::CacheBytes(*pass.executable, pass.tile, pass.source.size(), pass.tta);
}

TileGrid GridOf(const PassSpec& pass) {
  const Size image = pass.source.size();
  return pass.rows ? TileGrid::Bands(image, pass.tile.height) : TileGrid(image, pass.tile);
}

int SlotCount(const PassSpec& pass, const TileGrid& grid) {
  return std::min(pass.bands, grid.rows());
}

void CopyRows(const ImageView& from, const MutableImageView& to) {
  for (int y = 0; y < to.height_px(); ++y) {
    std::memcpy(to.row(y), from.row(y), to.spec.row_bytes());
  }
}

}  // namespace

ImageSpec PassResult(const PassSpec& pass) {
  const int scale = pass.executable->network().scale;
  return {pass.source.width_px * scale, pass.source.height_px * scale, pass.source.channels,
          pass.result_type};
}

int64_t PassTileCount(const PassSpec& pass) {
  if (pass.cells) return CellPassTileCount(pass);
  if (pass.rows) return RowRun::PartCount(pass) * pass.images();
  const int64_t runs = 1 + std::ssize(ListPoolings(pass.executable->network()));
  return TileGrid(pass.source.size(), pass.tile).count() * runs * pass.images() *
         (pass.tta ? Dihedral::kCount : 1);
}

int MaxReadAheadRows(const PassSpec& pass) {
  if (pass.cells) return CellPassReadAheadRows(pass);
  if (!ListPoolings(pass.executable->network()).empty()) return pass.source.height_px;
  const TileGrid grid = GridOf(pass);
  const int bands_ahead = SlotCount(pass, grid) - 1;
  return std::min(pass.source.height_px,
                  bands_ahead * grid.tile_size().height + MaxInputRows(pass, grid));
}

int BandsBelow(const PassSpec& pass, int height_px) {
  if (!pass.spares_flat_areas) return 0;
  return CeilDiv(pass.reach.halo.top_px + pass.reach.halo.bottom_px, height_px);
}

std::unique_ptr<PassRows> MakePass(const PassSpec& pass, RowSource& source, TileRun& run) {
  if (pass.cells) return std::make_unique<CellPass>(pass, source, run);
  return std::make_unique<NetworkPass>(pass, source, run);
}

Stage PlanPass(const PassSpec& pass) {
  if (pass.cells) return PlanCellPass(pass);
  const TileGrid grid = GridOf(pass);
  const int scale = pass.executable->network().scale;
  size_t slot = ImageBytes(WithHeight(pass.source, MaxInputRows(pass, grid))) +
                ImageBytes(WithHeight(PassResult(pass), grid.tile_size().height * scale));
  if (pass.tta) {
    slot += TtaTile::Bytes(grid.tile_size(), MaxInput(pass, grid.tile_size()), scale,
                           pass.source.type) *
            static_cast<size_t>(grid.columns());
  }
  const bool cuts = FlatAreas::Apply(pass);
  const size_t parts = cuts ? FlatAreas::kMaxParts : 1;
  // The tasks of a band, here and in the executor's queue, and their plans.
  const size_t variants = pass.tta ? Dihedral::kCount : 1;
  const size_t plans = variants * pass.executable->Plan({0, 0, 1, 1}, pass.source.size()).bytes();
  slot += (2 * sizeof(TileTask) + sizeof(TileVariants) + plans) * parts *
          static_cast<size_t>(grid.columns());
  if (pass.rows) {
    // The band as a whole, the rows below, and the known bands ahead.
    slot += sizeof(RowParts) + 2 * plans +
            parts * static_cast<size_t>(pass.bands) * sizeof(std::shared_ptr<const TilePlan>);
  }
  if (cuts) slot += FlatAreas::AreaBytes(pass);
  const size_t flat = cuts ? FlatAreas::Bytes(pass, MaxInputRows(pass, grid)) : 0;
  const size_t rings = pass.rows ? pass.rows->bytes : 0;
  const size_t alpha_row = sizeof(float) * static_cast<size_t>(pass.source.width_px);
  return {{.source = pass.source,
           .result = PassResult(pass),
           .border_px = std::max(pass.reach.halo_px(), pass.source.has_alpha() ? kAlphaHaloPx : 0),
           .memory_bytes = slot * static_cast<size_t>(SlotCount(pass, grid)) + PoolingBytes(pass) +
                           flat + rings + alpha_row + kPassOverheadBytes},
          [pass](RowSource& rows, TileRun& run) {
            return std::make_unique<NetworkPass>(pass, rows, run);
          }};
}

NetworkPass::NetworkPass(const PassSpec& pass, RowSource& source, TileRun& run)
    : pass_(pass),
      result_(PassResult(pass)),
      scale_(pass.executable->network().scale),
      grid_(GridOf(pass)),
      run_(run),
      source_(Gathers(pass_) ? pooled_.emplace(pass_, source, run) : source),
      slots_(static_cast<size_t>(SlotCount(pass, grid_))) {
  UPSCALED_CHECK(source.spec() == pass.source);
  // A band takes the rows shared with the one before from that one's slot.
  UPSCALED_CHECK(slots_.size() > 1 || grid_.rows() == 1);
  if (FlatAreas::Apply(pass_)) flat_areas_.emplace(pass_);
  if (pass.rows) rows_.emplace(pass_, run);
  const int input_rows = MaxInputRows(pass_, grid_);
  for (Slot& slot : slots_) {
    slot.source = Image(WithHeight(pass.source, input_rows));
    slot.result = Image(WithHeight(result_, grid_.tile_size().height * scale_));
    if (!pass.tta) continue;
    slot.tta.reserve(static_cast<size_t>(grid_.columns()));
    for (int column = 0; column < grid_.columns(); ++column) {
      slot.tta.emplace_back(grid_.tile_size(), MaxInput(pass, grid_.tile_size()), scale_,
                            pass.source.type);
    }
  }
}

absl::Status NetworkPass::ReadRows(MutableImageView rows) {
  UPSCALED_CHECK(rows.height_px() <= result_.height_px - next_row_);
  for (int done = 0; done < rows.height_px();) {
    RETURN_IF_ERROR(SubmitBandsAhead());
    const Slot& slot = SlotOf(band_);
    RETURN_IF_ERROR(run_.Await(slot.tiles));
    CopyFlatAreas(band_);
    const Rect band = Scale(grid_.Band(band_), scale_);
    const int count = std::min(rows.height_px() - done, band.bottom() - next_row_);
    CopyOut(slot, band, rows.Crop({0, done, result_.width_px, count}));
    done += count;
    next_row_ += count;
    if (next_row_ == band.bottom()) ++band_;
  }
  return absl::OkStatus();
}

absl::Status NetworkPass::SubmitBandsAhead() {
  const int end = std::min(grid_.rows(), band_ + static_cast<int>(slots_.size()));
  for (; bands_submitted_ < end; ++bands_submitted_) {
    RETURN_IF_ERROR(run_.status());
    if (absl::Status status = SubmitBand(bands_submitted_); !status.ok()) {
      run_.Stop(status);
      return status;
    }
  }
  return absl::OkStatus();
}

absl::Status NetworkPass::SubmitBand(int band) {
  if (pooled_) RETURN_IF_ERROR(pooled_->Gather());
  std::vector<TileParts> tiles = PlanBand(band);
  RETURN_IF_ERROR(ReadSource(band, tiles));
  if (rows_) SlotOf(band).band = tiles.front().front();
  if (flat_areas_) CutOutFlatAreas(band, tiles);
  if (!rows_) {
    SubmitTiles(band, std::move(tiles));
    return absl::OkStatus();
  }
  SlotOf(band).parts = std::move(tiles.front());
  const int known = band + 1;
  const int end = known == grid_.rows() ? known : known - BandsBelow(pass_, pass_.tile.height);
  while (rows_submitted_ < end) SubmitRows(rows_submitted_++, known);
  return absl::OkStatus();
}

std::vector<TileParts> NetworkPass::PlanBand(int band) const {
  std::vector<TileParts> tiles;
  tiles.reserve(static_cast<size_t>(grid_.columns()));
  for (int column = 0; column < grid_.columns(); ++column) {
    if (pooled_ && !pass_.tta) {  // planned when it gathered
      const std::shared_ptr<const TilePlan>& plan = pooled_->tile(TileNumber(band, column)).plan;
      tiles.push_back({TileVariants{{plan}, plan->input}});
    } else {
      tiles.push_back({PlanVariants(*pass_.executable, grid_.Tile(column, band),
                                    pass_.source.size(), pass_.tta)});
    }
  }
  return tiles;
}

absl::Status NetworkPass::ReadSource(int band, std::span<const TileParts> tiles) {
  Slot& slot = SlotOf(band);
  const Rect input = BandInput(pass_, grid_.Band(band), tiles);
  slot.source_y = input.y;
  slot.source_end = input.bottom();
  int y = input.y;
  if (band > 0) {
    // The rows of both bands are copied: the previous band's tiles may still be reading them.
    const Slot& previous = SlotOf(band - 1);
    UPSCALED_CHECK(input.y >= previous.source_y);
    slot.source_end = std::max(slot.source_end, previous.source_end);
    const Rect shared{0, input.y - previous.source_y, input.width,
                      std::max(0, previous.source_end - input.y)};
    CopyRows(previous.source.view().Crop(shared),
             slot.source.mutable_view().Crop({0, 0, shared.width, shared.height}));
    y = std::max(y, previous.source_end);
  }
  UPSCALED_CHECK(slot.source_end - slot.source_y <= slot.source.spec().height_px);
  if (y == slot.source_end) return absl::OkStatus();
  return source_.ReadRows(
      slot.source.mutable_view().Crop({0, y - slot.source_y, input.width, slot.source_end - y}));
}

void NetworkPass::CutOutFlatAreas(int band, std::span<TileParts> tiles) {
  Slot& slot = SlotOf(band);
  const ImageView rows =
      slot.source.view().Crop({0, 0, pass_.source.width_px, slot.source_end - slot.source_y});
  slot.flat_areas = flat_areas_->CutOut(rows, slot.source_y, band, grid_.Band(band), band_, tiles);
  for (const FlatArea& flat : slot.flat_areas) {
    run_.Spare(flat.area.Area());
    if (flat.result->is_begun()) continue;  // for this band, or one that is read out before it
    run_.Add(slot.tiles, 1);
    flat.result->Compute(run_, [this, &slot] { run_.Finish(slot.tiles); });
  }
}

void NetworkPass::SubmitRows(int band, int known_bands) {
  Slot& slot = SlotOf(band);
  const auto [src, dst] = PixelsOf(band, slot.band);
  run_.Add(slot.tiles, 1);
  rows_->Submit({slot.band.plans.front(), src, slot.band.input, dst},
                flat_areas_ ? PartsFrom(band, known_bands) : nullptr,
                [this, &slot] { run_.Finish(slot.tiles); });
}

std::shared_ptr<const RowParts> NetworkPass::PartsFrom(int band, int known_bands) {
  auto parts = std::make_shared<RowParts>();
  parts->tiles.reserve(FlatAreas::kMaxParts * static_cast<size_t>(known_bands - band));
  for (int known = band; known < known_bands; ++known) {
    for (const TileVariants& part : SlotOf(known).parts) {
      parts->tiles.push_back(part.plans.front());
    }
  }
  const Size image = pass_.source.size();
  const int end = grid_.Band(known_bands - 1).bottom();
  if (end < image.height) {
    parts->unknown = std::make_shared<const TilePlan>(
        pass_.executable->Plan({0, end, image.width, image.height - end}, image));
  }
  return parts;
}

void NetworkPass::SubmitTiles(int band, std::vector<TileParts> tiles) {
  for (int column = 0; column < grid_.columns(); ++column) {
    TileParts& tile = tiles[static_cast<size_t>(column)];
    if (tile.empty()) {
      run_.CountDone(pass_.tta ? Dihedral::kCount : 1);
    } else if (pass_.tta) {
      SubmitTta(band, column, std::move(tile));
    }
  }
  if (!pass_.tta) SubmitTasks(band, std::move(tiles));
}

void NetworkPass::SubmitTta(int band, int column, TileParts parts) {
  Slot& slot = SlotOf(band);
  std::vector<TtaTask> tasks;
  for (TileVariants& part : parts) {
    const auto [src, dst] = PixelsOf(band, part);
    TtaTask& task =
        tasks.emplace_back(TtaTask{std::move(part), src, dst, {}, VariantsAreImages(pass_)});
    if (pooled_) task.passes = pooled_->variant_passes();
  }
  run_.Add(slot.tiles, 1);
  slot.tta[static_cast<size_t>(column)].Start(run_, pass_.executable, std::move(tasks),
                                              [this, &slot] { run_.Finish(slot.tiles); });
}

void NetworkPass::SubmitTasks(int band, std::vector<TileParts> tiles) {
  Slot& slot = SlotOf(band);
  std::vector<TileTask> tasks, further;  // a tile's first part stands for it in the progress
  for (int column = 0; column < grid_.columns(); ++column) {
    bool first = true;
    for (const TileVariants& part : tiles[static_cast<size_t>(column)]) {
      const auto [src, dst] = PixelsOf(band, part);
      TileTask& task = (std::exchange(first, false) ? tasks : further).emplace_back();
      task = {part.plans.front(), src, part.input, dst};
      if (pooled_) task.pooling = pooled_->tile(TileNumber(band, column)).pooling;
    }
  }
  run_.Add(slot.tiles, static_cast<int>(tasks.size() + further.size()));
  const auto done = [this, &slot](size_t, const absl::Status&) { run_.Finish(slot.tiles); };
  run_.Submit(pass_.executable, std::move(tasks), done);
  run_.Submit(pass_.executable, std::move(further), done, TileRun::Progress::kNone);
}

NetworkPass::PartPixels NetworkPass::PixelsOf(int band, const TileVariants& part) {
  Slot& slot = SlotOf(band);
  Rect input = part.input, rect = part.plans.front()->tile;
  input.y -= slot.source_y;
  rect.y -= grid_.Band(band).y;
  return {slot.source.view().Crop(input), slot.result.mutable_view().Crop(Scale(rect, scale_))};
}

void NetworkPass::CopyFlatAreas(int band) {
  Slot& slot = SlotOf(band);
  for (const FlatArea& flat : std::exchange(slot.flat_areas, {})) {
    Rect area = flat.area;
    area.y -= grid_.Band(band).y;
    flat.result->CopyTo(flat.area, slot.result.mutable_view().Crop(Scale(area, scale_)));
  }
}

void NetworkPass::CopyOut(const Slot& slot, const Rect& band, MutableImageView rows) const {
  CopyRows(slot.result.view().Crop({0, next_row_ - band.y, result_.width_px, rows.height_px()}),
           rows);
  if (result_.has_alpha()) {
    EnlargeAlpha(slot.source.view(), slot.source_y, pass_.source.height_px, scale_, rows,
                 next_row_);
  }
}

}  // namespace upscaled
