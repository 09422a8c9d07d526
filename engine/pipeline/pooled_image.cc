#include "engine/pipeline/pooled_image.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/pipeline/network_pass.h"
#include "engine/pipeline/tta_tile.h"

namespace upscaled {
namespace {

// The format of a variant's colour; gathering takes no alpha.
ImageSpec VariantSpec(const ImageSpec& source, Dihedral variant) {
  const Size size = variant.Apply(source.size());
  return {size.width, size.height, 3, source.type};
}

}  // namespace

PooledImage::PooledImage(const PassSpec& pass, RowSource& source, TileRun& run)
    : pass_(pass), source_(source), run_(run) {}

absl::Status PooledImage::ReadRows(MutableImageView rows) {
  for (int y = 0; y < rows.height_px(); ++y) {
    std::memcpy(rows.row(y), image_.view().row(next_row_++), rows.spec.row_bytes());
  }
  return absl::OkStatus();
}

absl::Status PooledImage::Gather() {
  if (std::exchange(gathered_, true)) return absl::OkStatus();
  image_ = Image(spec());
  RETURN_IF_ERROR(source_.ReadRows(image_.mutable_view()));
  if (pass_.tta) return GatherVariants();
  ASSIGN_OR_RETURN(ImageRun gathered, GatherFrom(image_.view(), Dihedral(0)));
  run_of_image_.emplace(std::move(gathered));
  return absl::OkStatus();
}

absl::Status PooledImage::GatherVariants() {
  for (int i = 0; i < Dihedral::kCount; ++i) {
    const Dihedral variant(i);
    Image turned(VariantSpec(spec(), variant));
    CopyTransformed(image_.view(), variant, turned.mutable_view().data);
    ASSIGN_OR_RETURN(const ImageRun gathered, GatherFrom(turned.view(), variant));
    means_.emplace_back(gathered.means().begin(), gathered.means().end());
  }
  for (const std::vector<ChannelMeans>& means : means_) variant_passes_.push_back({.means = means});
  return absl::OkStatus();
}

absl::StatusOr<ImageRun> PooledImage::GatherFrom(const ImageView& view, Dihedral variant) {
  const Executable& executable = *pass_.executable;
  ImageRun run(executable, CutImage(executable, view, {}, variant.Apply(pass_.tile)),
               pass_.cached_tiles);
  RETURN_IF_ERROR(run.Gather([this](std::span<const TileTask> tiles) {
    TileRun::Group group;
    run_.Add(group, static_cast<int>(tiles.size()));
    run_.Submit(pass_.executable, {tiles.begin(), tiles.end()},
                [this, &group](size_t, const absl::Status&) { run_.Finish(group); });
    return run_.Await(group);
  }));
  return run;
}

size_t PooledImage::Bytes(const PassSpec& pass) {
  const size_t turned = pass.tta ? ImageBytes(VariantSpec(pass.source, Dihedral(0))) : 0;
  return ImageBytes(pass.source) + turned +
         ImageRun::Bytes(ImageRun::BytesPerTile(*pass.executable), pass.source.size(), pass.tile) +
         static_cast<size_t>(pass.cached_tiles) *
             pass.executable->ActivationCacheBytes(pass.tile, pass.source.size());
}

}  // namespace upscaled
