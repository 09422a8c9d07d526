#include "engine/pipeline/tile_run.h"

#include <utility>

namespace upscaled {

TileRun::TileRun(TileExecutor& executor, Cancellation* cancellation, UpscaleProgress progress,
                 int64_t tile_count)
    : executor_(executor), progress_(std::move(progress)), tile_count_(tile_count) {
  if (cancellation != nullptr) {
    outer_ = cancellation->OnCancel([this, cancellation] { Stop(cancellation->status()); });
  }
}

TileRun::~TileRun() {
  // First: a running cancellation is done with stop_ before stop_ goes.
  outer_.Reset();
  AwaitAll();
}

void TileRun::Submit(const std::shared_ptr<const Executable>& executable,
                     std::vector<TileTask> tiles, TileExecutor::TileDone done, Progress progress) {
  if (tiles.empty()) return;
  executor_.Submit(
      executable, std::move(tiles), &stop_,
      [this, done = std::move(done), progress](size_t index, const absl::Status& status) {
        if (!status.ok()) {
          Stop(status);
        } else if (progress == Progress::kCounts) {
          CountDone(1);
        }
        done(index, status);
      });
}

void TileRun::CountDone(int tiles) {
  const int64_t count = tiles_done_ += tiles;
  if (progress_.on_tile) progress_.on_tile(count, tile_count_);
}

void TileRun::Spare(int64_t source_px) {
  if (progress_.on_spared) progress_.on_spared(source_px);
}

void TileRun::Add(Group& group, int tiles) {
  absl::MutexLock lock(&mutex_);
  group.pending += tiles;
  pending_ += tiles;
}

void TileRun::Finish(Group& group) {
  absl::MutexLock lock(&mutex_);
  --group.pending;
  --pending_;
}

absl::Status TileRun::Await(const Group& group) {
  {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](const Group* g) { return g->pending == 0; }, &group));
  }
  return status();
}

void TileRun::AwaitAll() {
  absl::MutexLock lock(&mutex_);
  const auto none = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return pending_ == 0; };
  mutex_.Await(absl::Condition(&none));
}

}  // namespace upscaled
