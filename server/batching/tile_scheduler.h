// Runs the tiles of all requests and models on the streams of one device.
//
// One thread per stream takes work as soon as it is idle: nothing ever waits for a batch to fill.
// While all streams are busy tiles queue up, and the stream that comes free takes its share of
// them, of one Executable and up to a number of pixels, in a single run. Requests share the device
// by pixels, not by tiles or order of arrival (start-time fair queueing, Goyal et al. 1996, with
// the tile's area as its length); the tiles of one request run in the order of submission.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
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

// Thread safe. A drain waits for the requests, not for the scheduler (see admission).
class TileScheduler final : public TileExecutor {
  struct Account;

 public:
  // A request's account with the scheduler; closed by destruction, after which its id is unknown.
  // Must not outlive the scheduler.
  class Request {
   public:
    Request(Request&& other) noexcept = default;
    Request& operator=(Request&&) = delete;
    ~Request();

    uint64_t id() const;  // for Submit
    RequestUsage usage() const;

   private:
    friend class TileScheduler;
    Request(TileScheduler& owner, std::shared_ptr<Account> account)
        : owner_(owner), account_(std::move(account)) {}
    TileScheduler& owner_;
    std::shared_ptr<Account> account_;
  };

  // `backend`, `clock` and `observer` (may be null) must outlive it.
  TileScheduler(Backend& backend, const Clock& clock, const TileSchedulerOptions& options = {},
                TileObserver* observer = nullptr);
  // Stops as Stop does.
  ~TileScheduler() override;

  Request OpenRequest() ABSL_LOCKS_EXCLUDED(mutex_);

  // `request` is the id of an open request (else the tiles fail with INTERNAL). A tile whose stream
  // fails gets the stream's error, as do the others of its batch. TileDone is called with no lock
  // held, from here when the tiles are not accepted.
  void Submit(uint64_t request, std::shared_ptr<const Executable> executable,
              std::vector<TileTask> tiles, Cancellation* cancellation, TileDone done) override
      ABSL_LOCKS_EXCLUDED(mutex_);

  int concurrency() const override { return static_cast<int>(streams_.size()); }

  TileLoad load() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Tiles in the queue, and all submitted from now on, get `reason` (not OK); running ones finish.
  // Returns when the threads have ended. Not to be called from a TileDone, nor by two threads.
  void Stop(absl::Status reason) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Submission;
  struct QueuedTile;
  struct Batch;
  using Due = std::pair<int64_t, uint64_t>;  // an account's virtual start and id

  void RunWorker(Stream& stream) ABSL_LOCKS_EXCLUDED(mutex_);
  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  Batch TakeBatch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeTile(Account& account, Batch& batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunBatch(Stream& stream, const Batch& batch) ABSL_LOCKS_EXCLUDED(mutex_);
  void DropCancelled(const Submission& submission) ABSL_LOCKS_EXCLUDED(mutex_);
  void FinishDropped(const std::vector<QueuedTile>& tiles) ABSL_LOCKS_EXCLUDED(mutex_);
  void Finish(std::span<const QueuedTile> tiles, const absl::Status& status)
      ABSL_LOCKS_EXCLUDED(mutex_);

  const Clock& clock_;
  const TileSchedulerOptions options_;
  TileObserver* const observer_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::thread> workers_;  // one per stream

  mutable absl::Mutex mutex_;
  std::map<uint64_t, std::shared_ptr<Account>> open_ ABSL_GUARDED_BY(mutex_);
  std::map<Due, Account*> due_ ABSL_GUARDED_BY(mutex_);  // exactly those with queued tiles
  uint64_t last_request_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t virtual_now_ ABSL_GUARDED_BY(mutex_) = 0;
  TileLoad load_ ABSL_GUARDED_BY(mutex_);
  absl::Status stop_reason_ ABSL_GUARDED_BY(mutex_);  // not OK: stopped
};

}  // namespace upscaled::server
