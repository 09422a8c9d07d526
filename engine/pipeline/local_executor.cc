#include "engine/pipeline/local_executor.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/cpu_info.h"

namespace upscaled {
namespace {

class LocalExecutor final : public TileExecutor {
 public:
  explicit LocalExecutor(std::vector<std::unique_ptr<Stream>> streams);
  ~LocalExecutor() override;

  void Submit(std::shared_ptr<const Executable> executable, std::vector<TileTask> tiles,
              Cancellation* cancellation, TileDone done) override ABSL_LOCKS_EXCLUDED(mutex_);

  int concurrency() const override { return static_cast<int>(streams_.size()); }

 private:
  struct Submission {
    std::shared_ptr<const Executable> executable;
    std::vector<TileTask> tiles;
    TileDone done;
    size_t unfinished = 0;                    // guarded by mutex_
    absl::Status dropped;                     // guarded by mutex_; not OK once cancelled
    Cancellation::Registration cancellation;  // reset by whoever finishes the last tile
  };
  struct QueuedTile {
    std::shared_ptr<Submission> submission;
    size_t index = 0;
  };

  void RunWorker(Stream& stream) ABSL_LOCKS_EXCLUDED(mutex_);
  void Drop(const std::shared_ptr<Submission>& submission, absl::Status reason)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Finish(const QueuedTile& tile, const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::thread> workers_;

  absl::Mutex mutex_;
  std::deque<QueuedTile> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

LocalExecutor::LocalExecutor(std::vector<std::unique_ptr<Stream>> streams)
    : streams_(std::move(streams)) {
  for (int i = 0; i < concurrency(); ++i) {
    workers_.emplace_back([this, i] {
      BindPoolThread(i, concurrency());
      RunWorker(*streams_[i]);
    });
  }
}

LocalExecutor::~LocalExecutor() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  for (std::thread& worker : workers_) worker.join();
}

void LocalExecutor::Submit(std::shared_ptr<const Executable> executable,
                           std::vector<TileTask> tiles, Cancellation* cancellation, TileDone done) {
  if (tiles.empty()) return;
  for (TileTask& tile : tiles) tile.cancellation = cancellation;
  auto submission = std::make_shared<Submission>();
  submission->executable = std::move(executable);
  submission->unfinished = tiles.size();
  submission->tiles = std::move(tiles);
  submission->done = std::move(done);
  // Registered before anything is queued: once the last tile is done the cancellation may be gone.
  if (cancellation != nullptr) {
    submission->cancellation = cancellation->OnCancel(
        [this, submission, cancellation] { Drop(submission, cancellation->status()); });
  }
  absl::Status dropped;
  {
    absl::MutexLock lock(&mutex_);
    dropped = submission->dropped;
    if (dropped.ok()) {
      for (size_t i = 0; i < submission->tiles.size(); ++i) queue_.push_back({submission, i});
    }
  }
  if (dropped.ok()) return;
  for (size_t i = 0; i < submission->tiles.size(); ++i) Finish({submission, i}, dropped);
}

void LocalExecutor::RunWorker(Stream& stream) {
  const auto wake = [this]()
                        ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stopping_ || !queue_.empty(); };
  while (true) {
    QueuedTile tile;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&wake));
      if (queue_.empty()) return;
      tile = std::move(queue_.front());
      queue_.pop_front();
    }
    const Submission& submission = *tile.submission;
    Finish(tile, stream.Run(*submission.executable, std::span(&submission.tiles[tile.index], 1)));
  }
}

void LocalExecutor::Drop(const std::shared_ptr<Submission>& submission, absl::Status reason) {
  std::vector<QueuedTile> dropped;
  {
    absl::MutexLock lock(&mutex_);
    submission->dropped = reason;
    std::deque<QueuedTile> kept;
    for (QueuedTile& tile : queue_) {
      if (tile.submission == submission) {
        dropped.push_back(std::move(tile));
      } else {
        kept.push_back(std::move(tile));
      }
    }
    queue_.swap(kept);
  }
  for (const QueuedTile& tile : dropped) Finish(tile, reason);
}

void LocalExecutor::Finish(const QueuedTile& tile, const absl::Status& status) {
  Submission& submission = *tile.submission;
  bool last;
  {
    absl::MutexLock lock(&mutex_);
    last = --submission.unfinished == 0;
  }
  // Before the last TileDone, since it may destroy the cancellation.
  if (last) submission.cancellation.Reset();
  submission.done(tile.index, status);
}

}  // namespace

std::unique_ptr<TileExecutor> MakeLocalExecutor(Backend& backend) {
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < backend.StreamCount(); ++i) streams.push_back(backend.CreateStream());
  return MakeLocalExecutor(std::move(streams));
}

std::unique_ptr<TileExecutor> MakeLocalExecutor(std::vector<std::unique_ptr<Stream>> streams) {
  return std::make_unique<LocalExecutor>(std::move(streams));
}

}  // namespace upscaled
