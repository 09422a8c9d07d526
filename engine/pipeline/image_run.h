// One image through an executable, in one or more passes over its tiles: one for each of the
// network's global average poolings, in order, and the last one for the result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "engine/backends/backend.h"
#include "engine/pipeline/tile_executor.h"

namespace upscaled {

// Used by one thread at a time; Start does as it likes.
class ImageRun {
 public:
  // Runs its tiles and returns when they are done.
  using RunTiles = absl::FunctionRef<absl::Status(std::span<const TileTask>)>;
  // As TileExecutor::Submit, for all passes of an image.
  using SubmitTiles = std::function<void(std::vector<TileTask>, TileExecutor::TileDone)>;

  // `tiles`, at least one, cover the image. Only the last pass writes their `dst`. The first
  // `cached_tiles` of them have an activation cache.
  ImageRun(const Executable& executable, std::vector<TileTask> tiles, int64_t cached_tiles = 0);
  ImageRun(ImageRun&&) noexcept = default;
  ImageRun& operator=(ImageRun&&) = delete;

  // All passes.
  absl::Status Run(RunTiles run);
  // All except the last one. The caller runs that: it takes pass_tiles().
  absl::Status Gather(RunTiles run);
  // All passes, each submitted by the thread that finished the one before. Calls `done` once, when
  // no thread uses the tiles' pixels any more: OK, or the status of the first failed tile. `run`
  // lives until then.
  static void Start(std::shared_ptr<ImageRun> run, SubmitTiles submit,
                    std::function<void(const absl::Status&)> done);

  // The tiles for the due pass. They refer to this object, and change with the next pass.
  std::span<const TileTask> pass_tiles() const { return tiles_; }
  std::span<const ChannelMeans> means() const { return means_; }  // that are known

  // Its bytes at a time for an image in tiles of this size (CutImage), with a pass's tasks in
  // flight and in the executor's queue. Caches apart.
  static size_t Bytes(size_t bytes_per_tile, Size image, Size tile);
  // The same for each tile, for any image.
  static size_t BytesPerTile(const Executable& executable);
  // The memory of an activation cache for tiles of this size; `turned`: also of the turned image's.
  static size_t CacheBytes(const Executable& executable, Size tile, Size image, bool turned);
  // About what all passes over an image in tiles of this size cost, in multiply-adds
  // (TilePlan::Cost): tiles at its corners and along its sides count as they are, one in its middle
  // for all others.
  static double Cost(const Executable& executable, Size image, Size tile, int64_t cached_tiles = 0);

 private:
  bool gathers() const { return means_.size() < pooled_px_.size(); }
  // Prepares the tiles for the due pass.
  void BeginPass();
  // All tiles of a gathering pass have run.
  void EndPass();

  std::vector<int64_t> pooled_px_;  // for each pooled layer
  std::vector<TileTask> tiles_;
  std::vector<std::unique_ptr<ActivationCache>> caches_;  // the first tiles'
  std::vector<PoolingPass> passes_;                       // for each tile; none without poolings
  std::vector<ChannelSums> partial_sums_;                 // for each tile, until the last pass
  std::vector<ChannelMeans> means_;
};

// A part of an image, computed by itself. All in source pixels of the image. `source` holds all
// pixels for `result` (TilePlan::input).
struct ImagePart {
  Size image;
  Rect source;  // the pixels at hand
  Rect result;  // those to compute
};

// Whether a network has global poolings or may read any pixel, so that no part of an image can be
// computed by itself.
bool SeesWholeImage(const Executable& executable);

// The tiles of a grid over the part, `tile` in size but for the last ones: from `src`, the pixels
// of part.source, to `dst`, the result of part.result. Passes that only gather take an empty `dst`.
std::vector<TileTask> CutPart(const Executable& executable, const ImagePart& part,
                              const ImageView& src, const MutableImageView& dst, Size tile);

// The same for a whole image.
std::vector<TileTask> CutImage(const Executable& executable, const ImageView& src,
                               const MutableImageView& dst, Size tile);

// The tile size that keeps this many streams (at least one) busy to the end of a part of an image,
// or of a whole one, while nothing else runs: as large as the device likes, but small enough for
// all of them. `halo_px`: around each tile.
Size TileSizeFor(const Executable& executable, Size image, Size part, int halo_px, int streams);

}  // namespace upscaled
