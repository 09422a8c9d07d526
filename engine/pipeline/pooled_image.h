// An image before a network with global poolings. Such a network must see the whole image before it
// can compute any part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/backends/backend.h"
#include "engine/image/image.h"
#include "engine/image/row_source.h"
#include "engine/pipeline/dihedral.h"
#include "engine/pipeline/image_run.h"
#include "engine/pipeline/pass_spec.h"
#include "engine/pipeline/tile_run.h"

namespace upscaled {

// Gives the rows of its source, once it has read and kept them all and gathered the poolings for
// the tiles of the pass.
class PooledImage final : public RowSource {
 public:
  // All must outlive it.
  PooledImage(const PassSpec& pass, RowSource& source, TileRun& run);

  const ImageSpec& spec() const override { return source_.spec(); }
  // Reads the source and gathers, in its first call; before all else.
  absl::Status Gather();
  absl::Status ReadRows(MutableImageView rows) override;

  // The result pass of each variant of TTA (Dihedral).
  std::span<const PoolingPass> variant_passes() const { return variant_passes_; }
  // Without TTA, the result pass of the tile of this number of the pass's grid: its plan and its
  // share of poolings.
  const TileTask& tile(int64_t number) const {
    return run_of_image_->pass_tiles()[static_cast<size_t>(number)];
  }

  static size_t Bytes(const PassSpec& pass);

 private:
  absl::Status GatherVariants();
  // `view`: the image as a variant sees it.
  absl::StatusOr<ImageRun> GatherFrom(const ImageView& view, Dihedral variant);

  const PassSpec& pass_;
  RowSource& source_;
  TileRun& run_;
  Image image_;
  std::optional<ImageRun> run_of_image_;          // without TTA
  std::vector<std::vector<ChannelMeans>> means_;  // with it, of each variant
  std::vector<PoolingPass> variant_passes_;
  bool gathered_ = false;
  int next_row_ = 0;
};

}  // namespace upscaled
