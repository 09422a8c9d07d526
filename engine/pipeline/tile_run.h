// One request's dealings with the executor: its tiles in flight, its progress, its end.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/cancellation.h"
#include "engine/pipeline/tile_executor.h"
#include "engine/pipeline/upscaler.h"

namespace upscaled {

// Ends with the first of: the caller's cancellation, a failed tile, Stop. From then on status() is
// the reason, queued tiles are dropped and new ones are not run. Thread safe.
class TileRun {
 public:
  // Tiles with one wait for all of them. Add, Finish and Await keep its count.
  class Group {
    friend class TileRun;
    int pending = 0;  // guarded by TileRun::mutex_
  };

  // `executor` and `cancellation` (may be null) must outlive it.
  TileRun(TileExecutor& executor, Cancellation* cancellation, UpscaleProgress progress,
          int64_t tile_count);
  ~TileRun();

  absl::Status status() const { return stop_.status(); }
  void Stop(absl::Status reason) { stop_.Cancel(std::move(reason)); }
  void AwaitAll() ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether tiles count for the caller's progress.
  enum class Progress { kNone, kCounts };
  // `done` is called as by TileExecutor, after progress or failure has been noted. Hold no lock.
  void Submit(const std::shared_ptr<const Executable>& executable, std::vector<TileTask> tiles,
              TileExecutor::TileDone done, Progress progress = Progress::kCounts);
  // Count tiles that need not run as done, and tell their share of a pass's source.
  void CountDone(int tiles);
  void Spare(int64_t source_px);

  // Add counts `tiles` of a group as in flight. Finish counts one as settled. Call Finish last in
  // TileDone: the waiting thread may destroy anything TileDone used.
  void Add(Group& group, int tiles) ABSL_LOCKS_EXCLUDED(mutex_);
  void Finish(Group& group) ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits until no thread uses the pixels of the group's tiles; not OK: they are not all there.
  absl::Status Await(const Group& group) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  TileExecutor& executor_;
  const UpscaleProgress progress_;
  const int64_t tile_count_;
  std::atomic<int64_t> tiles_done_ = 0;

  Cancellation stop_;
  Cancellation::Registration outer_;  // forwards the caller's cancellation to stop_

  absl::Mutex mutex_;
  int pending_ ABSL_GUARDED_BY(mutex_) = 0;  // in all groups
};

}  // namespace upscaled
