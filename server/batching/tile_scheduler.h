// Runs the tiles of all requests and models on the streams of one device.
//
// One thread per stream takes work as soon as it is idle: nothing ever waits for a batch to fill.
// While all streams are busy tiles queue up, and the stream that comes free takes several tiles of
// one Executable in a single run, up to a number of pixels. Requests share the device by pixels,
// not by tiles or order of arrival (start-time fair queueing, Goyal et al. 1996, with the tile's
// area as its length); the tiles of one request run in the order of submission.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/backends/backend.h"
#include "engine/base/clock.h"
#include "engine/pipeline/tile_executor.h"
#include "server/batching/tile_observer.h"

namespace upscaled::server {

// What the tiles of one request have cost so far.
struct RequestUsage {
  int64_t tiles = 0;     // that ran, failed ones included
  absl::Duration queue;  // summed over these tiles
  absl::Duration infer;  // summed over these tiles: a batch's time is shared out by pixels
};

// Queued or running.
struct TileLoad {
  int64_t queued_tiles = 0;
  int64_t queued_pixels = 0;
  int64_t running_tiles = 0;
};

struct TileSchedulerOptions {
  int64_t max_batch_pixels = 256 * 1024;  // a larger tile runs alone
};

// Thread safe.
class TileScheduler final : public TileExecutor {
 public:
  // A request's account with the scheduler; closed by destruction. Must not outlive the scheduler.
  class Request {
   public:
    Request(Request&& other) noexcept;
    Request& operator=(Request&&) = delete;
    ~Request();

    uint64_t id() const { return id_; }  // for Submit
    RequestUsage usage() const;

   private:
    friend class TileScheduler;
    Request(TileScheduler* owner, uint64_t id) : owner_(owner), id_(id) {}
    TileScheduler* owner_;
    uint64_t id_;
  };

  // `backend`, `clock` and `observer` (may be null) must outlive it.
  TileScheduler(Backend& backend, const Clock& clock, const TileSchedulerOptions& options = {},
                TileObserver* observer = nullptr);
  // Stops as Stop does.
  ~TileScheduler() override;

  Request OpenRequest() ABSL_LOCKS_EXCLUDED(mutex_);

  // `request` is the id of an open request. A tile whose stream fails gets the stream's error, as
  // do the others of its batch. TileDone is called with no lock held.
  void Submit(uint64_t request, std::shared_ptr<const Executable> executable,
              std::vector<TileTask> tiles, Cancellation* cancellation, TileDone done) override
      ABSL_LOCKS_EXCLUDED(mutex_);

  int concurrency() const override { return static_cast<int>(workers_.size()); }

  TileLoad load() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits until nothing is queued or running; false when `timeout` passes first.
  bool AwaitIdle(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_);

  // Tiles in the queue, and all submitted from now on, get `reason`; running ones finish. Returns
  // when the threads have ended. Not to be called from a TileDone.
  void Stop(const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Submission;  // one Submit
  struct QueuedTile {
    std::shared_ptr<Submission> submission;
    size_t index;
    absl::Time submitted;
  };
  // One open request. Its virtual start is the service, in pixels, at which its next tile is due;
  // the account with the least goes first.
  struct Account {
    int64_t virtual_start = 0;
    std::deque<QueuedTile> queue;
    RequestUsage usage;
  };
  struct Batch {
    std::vector<QueuedTile> tiles;
    std::vector<QueuedTile> dropped;  // cancelled, found on the way
    int64_t pixels = 0;
  };
  using Due = std::pair<int64_t, uint64_t>;  // virtual start, request id

  void CloseRequest(uint64_t request) ABSL_LOCKS_EXCLUDED(mutex_);
  RequestUsage Usage(uint64_t request) const ABSL_LOCKS_EXCLUDED(mutex_);

  Backend& backend_;
  const Clock& clock_;
  const TileSchedulerOptions options_;
  TileObserver* const observer_;

  mutable absl::Mutex mutex_;
  std::map<uint64_t, Account> accounts_ ABSL_GUARDED_BY(mutex_);
  std::set<Due> due_ ABSL_GUARDED_BY(mutex_);  // the accounts with queued tiles
  uint64_t last_request_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t virtual_now_ ABSL_GUARDED_BY(mutex_) = 0;
  int idle_workers_ ABSL_GUARDED_BY(mutex_) = 0;
  TileLoad load_ ABSL_GUARDED_BY(mutex_);
  absl::Status stop_reason_ ABSL_GUARDED_BY(mutex_);  // not OK: stopped
  std::vector<std::thread> workers_;
};

}  // namespace upscaled::server
