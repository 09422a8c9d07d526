#include "engine/pipeline/pooled_image.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/pipeline/network_pass.h"
#include "engine/pipeline/pooled_means.h"
#include "engine/pipeline/tta_tile.h"
#include "engine/tiling/tile_grid.h"

namespace upscaled {
namespace {

// Of a variant's colour; gathering takes no alpha.
ImageSpec VariantSpec(const ImageSpec& source, Dihedral variant) {
  const Size size = variant.Apply(source.size());
  return {size.width, size.height, 3, source.type};
}

}  // namespace

PooledImage::PooledImage(const PassSpec& pass, RowSource& source, TileRun& run)
    : pass_(pass), source_(source), run_(run) {}

absl::Status PooledImage::ReadRows(MutableImageView rows) {
  if (means_.empty()) RETURN_IF_ERROR(GatherAll());
  for (int y = 0; y < rows.height_px(); ++y) {
    std::memcpy(rows.row(y), image_.view().row(next_row_++), rows.spec.row_bytes());
  }
  return absl::OkStatus();
}

ActivationCache* PooledImage::memory(int64_t tile) const {
  return tile < std::ssize(memories_) ? memories_[static_cast<size_t>(tile)].get() : nullptr;
}

absl::Status PooledImage::GatherAll() {
  image_ = Image(spec());
  RETURN_IF_ERROR(source_.ReadRows(image_.mutable_view()));
  for (int64_t i = 0; i < pass_.cached_tiles; ++i) {
    memories_.push_back(pass_.executable->CreateActivationCache());
  }
  if (!pass_.tta) return Gather(image_.view(), Dihedral(0));
  for (int i = 0; i < Dihedral::kCount; ++i) {
    const Dihedral variant(i);
    Image turned(VariantSpec(spec(), variant));
    CopyTransformed(image_.view(), variant, turned.mutable_view().data);
    RETURN_IF_ERROR(Gather(turned.view(), variant));
  }
  return absl::OkStatus();
}

absl::Status PooledImage::Gather(const ImageView& view, Dihedral variant) {
  const TileGrid grid(view.spec.size(), variant.Apply(pass_.tile));
  std::vector<TileTask> tasks;
  for (int64_t i = 0; i < grid.count(); ++i) {
    TileTask task;
    task.image = grid.image();
    task.tile =
        grid.Tile(static_cast<int>(i % grid.columns()), static_cast<int>(i / grid.columns()));
    task.src_rect = pass_.executable->InputRect(task.tile, task.image);
    task.src = view.Crop(task.src_rect);
    task.memory = memory(i);
    tasks.push_back(task);
  }
  const auto run = [this](std::span<const TileTask> tiles) {
    TileRun::Group group;
    run_.Add(group, static_cast<int>(tiles.size()));
    run_.Submit(pass_.executable, {tiles.begin(), tiles.end()},
                [this, &group](size_t, const absl::Status&) { run_.Finish(group); });
    return run_.Await(group);
  };
  ASSIGN_OR_RETURN(std::vector<ChannelMeans> means,
                   GatherMeans(pass_.executable->network(), std::move(tasks), run));
  means_.push_back(std::move(means));
  return absl::OkStatus();
}

size_t PooledImage::Bytes(const PassSpec& pass) {
  const size_t turned = pass.tta ? ImageBytes(VariantSpec(pass.source, Dihedral(0))) : 0;
  const int64_t tiles = TileGrid(pass.source.size(), pass.tile).count();
  return ImageBytes(pass.source) + turned + GatherBytes(pass.executable->network(), tiles) +
         static_cast<size_t>(pass.cached_tiles) * pass.executable->ActivationCacheBytes(pass.tile);
}

}  // namespace upscaled
