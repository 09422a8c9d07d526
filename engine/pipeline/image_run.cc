#include "engine/pipeline/image_run.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/graph/pooling.h"
#include "engine/model/op.h"
#include "engine/model/shapes.h"
#include "engine/pipeline/reach.h"
#include "engine/pipeline/tile_grid.h"
#include "engine/pipeline/tile_shape.h"

namespace upscaled {
namespace {

// The outcome of the tiles of one pass of ImageRun::Start.
class StartedPass {
 public:
  explicit StartedPass(size_t tiles) : left_(tiles) {}

  // The pass's status, of the first failed tile, if this one is the last.
  std::optional<absl::Status> End(const absl::Status& tile) {
    absl::MutexLock lock(&mutex_);
    status_.Update(tile);
    if (--left_ > 0) return std::nullopt;
    return status_;
  }

 private:
  absl::Mutex mutex_;
  size_t left_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

// A row or column of tiles in place of several of a grid's.
struct Sample {
  int index = 0;
  double count = 0;
};

// Returns both ends, which see less of their surroundings, and one between.
std::vector<Sample> SampleOf(int count) {
  std::vector<Sample> samples = {{0, 1}};
  if (count > 2) samples.push_back({count / 2, count - 2.0});
  if (count > 1) samples.push_back({count - 1, 1});
  return samples;
}

}  // namespace

ImageRun::ImageRun(const Executable& executable, std::vector<TileTask> tiles, int64_t cached_tiles)
    : tiles_(std::move(tiles)) {
  UPSCALED_CHECK(!tiles_.empty());
  const Network& network = executable.network();
  const std::vector<int> poolings = ListPoolings(network);
  if (poolings.empty()) return;
  const std::vector<Size> sizes = LayerSizes(network, tiles_.front().plan->image);
  for (const int pooling : poolings) {
    pooled_px_.push_back(sizes[network.layers[pooling].inputs[0]].Area());
  }
  means_.reserve(poolings.size());
  for (int64_t i = 0; i < cached_tiles; ++i) caches_.push_back(executable.CreateActivationCache());
  passes_.resize(tiles_.size());
  partial_sums_.resize(tiles_.size());
  BeginPass();
}

absl::Status ImageRun::Run(RunTiles run) {
  RETURN_IF_ERROR(Gather(run));
  return run(pass_tiles());
}

absl::Status ImageRun::Gather(RunTiles run) {
  while (gathers()) {
    RETURN_IF_ERROR(run(pass_tiles()));
    EndPass();
  }
  return absl::OkStatus();
}

void ImageRun::Start(std::shared_ptr<ImageRun> run, SubmitTiles submit,
                     std::function<void(const absl::Status&)> done) {
  std::vector<TileTask> tiles = run->tiles_;
  const auto pass = std::make_shared<StartedPass>(tiles.size());
  submit(std::move(tiles), [run, submit, done, pass](size_t, const absl::Status& tile) {
    const std::optional<absl::Status> status = pass->End(tile);
    if (!status.has_value()) return;
    if (!status->ok() || !run->gathers()) {
      run->caches_.clear();  // before `done` starts another image with caches of its own
      return done(*status);
    }
    run->EndPass();
    Start(run, submit, done);
  });
}

void ImageRun::BeginPass() {
  for (size_t i = 0; i < passes_.size(); ++i) {
    passes_[i] = {.means = means_,
                  .partial_sums = gathers() ? &partial_sums_[i] : nullptr,
                  .cache = i < caches_.size() ? caches_[i].get() : nullptr};
    tiles_[i].pooling = &passes_[i];
  }
}

void ImageRun::EndPass() {
  ChannelSums total = std::move(partial_sums_.front());
  for (const ChannelSums& sums : std::span(partial_sums_).subspan(1)) total.Add(sums);
  means_.push_back(total.Means(pooled_px_[means_.size()]));
  if (!gathers()) partial_sums_ = {};
  BeginPass();
}

size_t ImageRun::Bytes(size_t bytes_per_tile, Size image, Size tile) {
  return bytes_per_tile * static_cast<size_t>(TileGrid(image, tile).count());
}

size_t ImageRun::BytesPerTile(const Executable& executable) {
  int channels = 0;
  for (const int pooling : ListPoolings(executable.network())) {
    channels = std::max(channels, executable.network().layers[pooling].out_channels);
  }
  // The tasks here, in flight and in the executor's queue.
  return sizeof(ChannelSums) + sizeof(absl::int128) * channels + sizeof(PoolingPass) +
         3 * sizeof(TileTask) + executable.Plan({0, 0, 1, 1}, executable.PreferredTile()).bytes();
}

size_t ImageRun::CacheBytes(const Executable& executable, Size tile, Size image, bool turned) {
  const size_t upright = executable.ActivationCacheBytes(tile, image);
  if (!turned) return upright;
  const auto turn = [](Size size) { return Size{size.height, size.width}; };
  return std::max(upright, executable.ActivationCacheBytes(turn(tile), turn(image)));
}

double ImageRun::Cost(const Executable& executable, Size image, Size tile, int64_t cached_tiles) {
  const TileGrid grid(image, tile);
  const double cached = static_cast<double>(cached_tiles) / static_cast<double>(grid.count());
  double cost = 0;
  for (const Sample row : SampleOf(grid.rows())) {
    for (const Sample column : SampleOf(grid.columns())) {
      const TilePlan plan = executable.Plan(grid.Tile(column.index, row.index), image);
      cost += column.count * row.count *
              (cached * static_cast<double>(plan.Cost(/*cached=*/true)) +
               (1 - cached) * static_cast<double>(plan.Cost(/*cached=*/false)));
    }
  }
  return cost;
}

bool SeesWholeImage(const Executable& executable) {
  const Network& network = executable.network();
  return ReadsAnywhere(network) || !ListPoolings(network).empty();
}

std::vector<TileTask> CutPart(const Executable& executable, const ImagePart& part,
                              const ImageView& src, const MutableImageView& dst, Size tile) {
  const TileGrid grid({part.result.width, part.result.height}, tile);
  std::vector<TileTask> tasks;
  tasks.reserve(static_cast<size_t>(grid.count()));
  for (int row = 0; row < grid.rows(); ++row) {
    for (int column = 0; column < grid.columns(); ++column) {
      TileTask& task = tasks.emplace_back();
      const Rect tile_rect = grid.Tile(column, row);
      const Rect place = Shift(tile_rect, part.result.x, part.result.y);
      task.plan = std::make_shared<const TilePlan>(executable.Plan(place, part.image));
      task.src_rect = task.plan->input;
      task.src = src.Crop(Shift(task.src_rect, -part.source.x, -part.source.y));
      if (dst.data != nullptr) task.dst = dst.Crop(Scale(tile_rect, executable.network().scale));
    }
  }
  return tasks;
}

std::vector<TileTask> CutImage(const Executable& executable, const ImageView& src,
                               const MutableImageView& dst, Size tile) {
  const Size size = src.spec.size();
  const Rect whole{0, 0, size.width, size.height};
  return CutPart(executable, {size, whole, whole}, src, dst, tile);
}

Size TileSizeFor(const Executable& executable, Size image, Size part, int halo_px, int streams) {
  const bool sees_all = TilesSeeAll(executable, image);
  return ChooseTileShape({.image = part,
                          .max_tile = sees_all ? image : executable.PreferredTileOf(image),
                          .halo_px = halo_px,
                          .sees_all = sees_all,
                          .streams = std::max(streams, 1),
                          .min_share_px = executable.MinSharePx()})
      .tile;
}

}  // namespace upscaled
