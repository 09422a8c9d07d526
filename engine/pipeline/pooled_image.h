// An image on its way into a network with global poolings, which must see all of it before it can
// compute any of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "engine/backends/backend.h"
#include "engine/image/image.h"
#include "engine/image/row_source.h"
#include "engine/pipeline/dihedral.h"
#include "engine/pipeline/pass_spec.h"
#include "engine/pipeline/tile_run.h"

namespace upscaled {

// Gives the rows of its source. The first ReadRows reads them all, keeps them, and gathers what the
// tiles of the pass take from here.
class PooledImage final : public RowSource {
 public:
  // All must outlive it.
  PooledImage(const PassSpec& pass, RowSource& source, TileRun& run);

  const ImageSpec& spec() const override { return source_.spec(); }
  absl::Status ReadRows(MutableImageView rows) override;

  // Of each variant of TTA (Dihedral), or of the image alone.
  std::span<const std::vector<ChannelMeans>> means() const { return means_; }
  // For the tile of this number of the pass's grid; may be null.
  ActivationCache* memory(int64_t tile) const;

  static size_t Bytes(const PassSpec& pass);

 private:
  absl::Status GatherAll();
  // `view`: the image as a variant sees it.
  absl::Status Gather(const ImageView& view, Dihedral variant);

  const PassSpec& pass_;
  RowSource& source_;
  TileRun& run_;
  Image image_;
  std::vector<std::vector<ChannelMeans>> means_;
  std::vector<std::unique_ptr<ActivationCache>> memories_;  // of the first tiles
  int next_row_ = 0;
};

}  // namespace upscaled
