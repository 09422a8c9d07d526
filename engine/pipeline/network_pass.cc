#include "engine/pipeline/network_pass.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/graph/pooling.h"
#include "engine/pipeline/alpha_rows.h"
#include "engine/pipeline/dihedral.h"

namespace upscaled {
namespace {

constexpr size_t kPassOverheadBytes = 4096;  // everything small

// The source rows that a band of these tiles needs: a rectangle of the image's full width. It holds
// the band itself, so that the bands leave no row out.
Rect BandInput(const PassSpec& pass, const Rect& band, std::span<const TileVariants> tiles) {
  const int margin = pass.source.has_alpha() ? kAlphaHaloPx : 0;
  Rect input = Expand(band, margin);
  for (const TileVariants& tile : tiles) input = Cover(input, tile.input);
  return Intersect({0, input.y, pass.source.width_px, input.height},
                   {0, 0, pass.source.width_px, pass.source.height_px});
}

// No tile of this size needs more of the source, wherever it lies and however the image is
// turned.
Size MaxInput(const PassSpec& pass, Size tile) {
  const Size image = pass.source.size();
  if (pass.halo_px >= kWholeImageHaloPx) return image;
  return {std::min(image.width, tile.width + 2 * pass.halo_px),
          std::min(image.height, tile.height + 2 * pass.halo_px)};
}

// Nor does a band need more rows, those included that the band before has read already.
int MaxInputRows(const PassSpec& pass, const TileGrid& grid) {
  const int height = grid.tile_size().height;
  const int margin = pass.source.has_alpha() ? kAlphaHaloPx : 0;
  return std::min(pass.source.height_px,
                  std::max(MaxInput(pass, grid.tile_size()).height, height + 2 * margin));
}

int SlotCount(const PassSpec& pass, const TileGrid& grid) {
  return std::min(pass.bands, grid.rows());
}

ImageSpec WithHeight(ImageSpec spec, int height) {
  spec.height_px = height;
  return spec;
}

void CopyRows(const ImageView& from, const MutableImageView& to) {
  for (int y = 0; y < to.height_px(); ++y) {
    std::memcpy(to.row(y), from.row(y), to.spec.row_bytes());
  }
}

}  // namespace

int HaloPx(const Executable& executable) {
  // Kernels compute whole blocks, so a tile's reach depends on where it lies in them: blocks of
  // every kernel, in source pixels, divide or are smaller than this.
  constexpr int kPhases = 64;
  // Far from all sides of an image.
  constexpr int kMiddle = 2 * kWholeImageHaloPx;
  int halo = 0;
  for (int i = 0; i < kPhases; ++i) {
    const int at = kMiddle + i;
    const Rect input = executable.Plan({at, at, 1, 1}, {2 * kMiddle, 2 * kMiddle}).input;
    halo = std::max(
        {halo, at - input.x, at - input.y, input.right() - at - 1, input.bottom() - at - 1});
  }
  // The partial sums' rectangles in pooled layers depend on the image's size.
  const Network& network = executable.network();
  if (!ListPoolings(network).empty()) halo += 2 * network.align_px;
  return std::min(halo, kWholeImageHaloPx);
}

ImageSpec PassResult(const PassSpec& pass) {
  const int scale = pass.executable->network().scale;
  return {pass.source.width_px * scale, pass.source.height_px * scale, pass.source.channels,
          pass.result_type};
}

int64_t PassTileCount(const PassSpec& pass) {
  const int64_t runs = 1 + std::ssize(ListPoolings(pass.executable->network()));
  return TileGrid(pass.source.size(), pass.tile).count() * runs * (pass.tta ? Dihedral::kCount : 1);
}

Stage PlanPass(const PassSpec& pass) {
  const TileGrid grid(pass.source.size(), pass.tile);
  const int scale = pass.executable->network().scale;
  size_t slot = ImageBytes(WithHeight(pass.source, MaxInputRows(pass, grid))) +
                ImageBytes(WithHeight(PassResult(pass), grid.tile_size().height * scale));
  if (pass.tta) {
    slot += TtaTile::Bytes(grid.tile_size(), MaxInput(pass, grid.tile_size()), scale,
                           pass.source.type) *
            static_cast<size_t>(grid.columns());
  }
  // The tasks of a band, here and in the executor's queue, and their plans.
  const size_t variants = pass.tta ? Dihedral::kCount : 1;
  const size_t plans = variants * pass.executable->Plan({0, 0, 1, 1}, pass.source.size()).bytes();
  slot +=
      (2 * sizeof(TileTask) + sizeof(TileVariants) + plans) * static_cast<size_t>(grid.columns());
  const bool pooled = !ListPoolings(pass.executable->network()).empty();
  const size_t image = pooled ? PooledImage::Bytes(pass) : 0;
  const size_t alpha_row = sizeof(float) * static_cast<size_t>(pass.source.width_px);
  return {{.source = pass.source,
           .result = PassResult(pass),
           .border_px = std::max(pass.halo_px, pass.source.has_alpha() ? kAlphaHaloPx : 0),
           .memory_bytes = slot * static_cast<size_t>(SlotCount(pass, grid)) + image + alpha_row +
                           kPassOverheadBytes},
          [pass](RowSource& rows, TileRun& run) {
            return std::make_unique<NetworkPass>(pass, rows, run);
          }};
}

NetworkPass::NetworkPass(const PassSpec& pass, RowSource& source, TileRun& run)
    : pass_(pass),
      result_(PassResult(pass)),
      scale_(pass.executable->network().scale),
      grid_(pass.source.size(), pass.tile),
      run_(run),
      source_(ListPoolings(pass.executable->network()).empty()
                  ? source
                  : pooled_.emplace(pass_, source, run)),
      slots_(static_cast<size_t>(SlotCount(pass, grid_))) {
  UPSCALED_CHECK(source.spec() == pass.source);
  // A band takes the rows that it shares with the one before from that one's slot.
  UPSCALED_CHECK(slots_.size() > 1 || grid_.rows() == 1);
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
  std::vector<TileVariants> tiles = PlanBand(band);
  RETURN_IF_ERROR(ReadSource(band, tiles));
  SubmitTiles(band, std::move(tiles));
  return absl::OkStatus();
}

std::vector<TileVariants> NetworkPass::PlanBand(int band) const {
  std::vector<TileVariants> tiles;
  tiles.reserve(static_cast<size_t>(grid_.columns()));
  for (int column = 0; column < grid_.columns(); ++column) {
    if (pooled_ && !pass_.tta) {  // planned when it gathered
      const std::shared_ptr<const TilePlan>& plan = pooled_->tile(TileNumber(band, column)).plan;
      tiles.push_back({{plan}, plan->input});
    } else {
      tiles.push_back(PlanVariants(*pass_.executable, grid_.Tile(column, band), pass_.source.size(),
                                   pass_.tta));
    }
  }
  return tiles;
}

absl::Status NetworkPass::ReadSource(int band, std::span<const TileVariants> tiles) {
  Slot& slot = SlotOf(band);
  const Rect input = BandInput(pass_, grid_.Band(band), tiles);
  slot.source_y = input.y;
  slot.source_end = input.bottom();
  int y = input.y;
  if (band > 0) {
    // The rows that both bands need are copied: the previous band's tiles may still be reading
    // them.
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

void NetworkPass::SubmitTiles(int band, std::vector<TileVariants> tiles) {
  Slot& slot = SlotOf(band);
  std::vector<TileTask> tasks;
  for (int column = 0; column < grid_.columns(); ++column) {
    const Rect tile = grid_.Tile(column, band);
    TileVariants& variants = tiles[static_cast<size_t>(column)];
    Rect input = variants.input;
    input.y -= slot.source_y;
    const ImageView src = slot.source.view().Crop(input);
    const MutableImageView dst =
        slot.result.mutable_view().Crop(Scale(Rect{tile.x, 0, tile.width, tile.height}, scale_));
    if (pass_.tta) {
      TtaTask task{std::move(variants), src, dst, {}};
      if (pooled_) task.passes = pooled_->variant_passes();
      run_.Add(slot.tiles, 1);
      slot.tta[static_cast<size_t>(column)].Start(run_, pass_.executable, std::move(task),
                                                  [this, &slot] { run_.Finish(slot.tiles); });
      continue;
    }
    TileTask& task = tasks.emplace_back();
    task = {variants.plans.front(), src, variants.input, dst};
    if (pooled_) task.pooling = pooled_->tile(TileNumber(band, column)).pooling;
  }
  if (pass_.tta) return;
  run_.Add(slot.tiles, grid_.columns());
  run_.Submit(pass_.executable, std::move(tasks),
              [this, &slot](size_t, const absl::Status&) { run_.Finish(slot.tiles); });
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
