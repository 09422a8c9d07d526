// The bands of one pass through one stream of rows, in slices short enough for tiles of others to
// run between them.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/backends/backend.h"
#include "engine/pipeline/pass_spec.h"
#include "engine/pipeline/tile_run.h"

namespace upscaled {

// Thread safe.
class RowRun {
 public:
  // `run` must outlive it, and so must the bands' groups be finished before it is destroyed.
  RowRun(const PassSpec& pass, TileRun& run);

  // The parts of a pass's progress: how many slices it takes at least.
  static int64_t PartCount(const PassSpec& pass);

  // Computes the next band of the image, once those before it are through. `parts`: computed from
  // there on, null for all. Calls `finished` once, when the band's pixels are no longer in use;
  // the run's status says whether it went well.
  void Submit(TileTask band, std::shared_ptr<const RowParts> parts, std::function<void()> finished)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Band {
    TileTask task;
    std::shared_ptr<const RowParts> parts;
    std::function<void()> finished;
  };

  // Submits the next slice of the first band, or finishes it and goes on with the one behind it.
  void GoOn() ABSL_LOCKS_EXCLUDED(mutex_);
  // Counts the done parts after a slice of this cost; the last one is the image's end.
  void Count(int64_t cost);
  // Counts the parts with their end above the result's row `bottom`, also copied ones.
  void CountBand(int bottom);
  void CountTo(int64_t parts);

  const std::shared_ptr<const Executable> executable_;
  const Size image_;
  const int64_t cost_;   // of the whole pass
  const int64_t parts_;  // PartCount
  TileRun& run_;
  const std::unique_ptr<RowStream> stream_;
  // Used by the thread of the slice, or of the last one.
  int64_t spent_ = 0;
  int64_t parts_done_ = 0;

  absl::Mutex mutex_;
  std::deque<Band> bands_ ABSL_GUARDED_BY(mutex_);  // the first one is being computed
};

}  // namespace upscaled
