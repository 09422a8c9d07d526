// Runs the tiles of all requests and models on the streams of all devices.
//
// One thread per stream takes work as soon as it is idle: nothing ever waits for a batch to fill.
// While all streams are busy tiles queue up, and the stream that comes free takes its share of
// them, of one Executable and up to a number of pixels, in a single run. Devices of one kind share
// a FairQueue; a request is bound to one kind, so that its image is of one arithmetic.
//
// A device that fails is taken out until Restore. The tiles that it failed on run once more, on
// another device; requests that no device of their kind is left for go on with those of another
// kind, or, when there is none, fail.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/backends/backend.h"
#include "engine/base/clock.h"
#include "engine/model/precision.h"
#include "engine/model/repository.h"
#include "engine/pipeline/tile_executor.h"
#include "server/base/throughput.h"
#include "server/batching/fair_queue.h"
#include "server/batching/tile_observer.h"
#include "server/devices/device.h"
#include "server/devices/device_executable.h"

namespace upscaled::server {

struct TileSchedulerOptions {
  int64_t max_batch_pixels = 256 * 1024;  // a larger tile runs alone
  // Called once for a device that is taken out, with no lock held. May be null.
  std::function<void(const Device&, const absl::Status&)> on_device_failed = nullptr;
};

// Thread safe. A drain waits for the requests, not for the scheduler (see admission).
class TileScheduler final : public TileExecutor {
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

    // At most once, before the first Submit: the request's networks on all devices that work and
    // can run them, and binds it to the kind that is soonest done with `pixels` (of the source; 0:
    // unknown), going by what is bound to each and by its speed so far. Loads what is not loaded.
    // UNAVAILABLE (kDeviceFailure) when no device works; else as ModelCache::Get.
    absl::StatusOr<DeviceExecutables> Load(const ModelCard& card,
                                           std::span<const ModelVariant* const> variants,
                                           Precision precision, int64_t pixels);

   private:
    friend class TileScheduler;
    Request(TileScheduler& owner, std::shared_ptr<Account> account)
        : owner_(owner), account_(std::move(account)) {}
    TileScheduler& owner_;
    std::shared_ptr<Account> account_;
  };

  // `devices` by slot, at least one; `clock` and `observer` (may be null) must outlive it.
  TileScheduler(const DeviceList& devices, const Clock& clock,
                const TileSchedulerOptions& options = {}, TileObserver* observer = nullptr);
  // Stops as Stop does.
  ~TileScheduler() override;

  Request OpenRequest() ABSL_LOCKS_EXCLUDED(mutex_);

  // `request` is the id of an open request (else the tiles fail with INTERNAL), `executable` a
  // DeviceExecutable, on the same devices in every call for this request. Errors of the tiles
  // themselves and of memory (with a retry delay) go to all tiles of the batch. After a device's
  // failure a tile gets INTERNAL (kDeviceFailure) when it is the second that fails on it,
  // UNAVAILABLE (kDeviceFailure) when no other device can take it. TileDone is called with no lock
  // held, from here when the tiles are not accepted.
  void Submit(uint64_t request, std::shared_ptr<const Executable> executable,
              std::vector<TileTask> tiles, Cancellation* cancellation, TileDone done) override
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Streams of all devices.
  int concurrency() const override { return static_cast<int>(workers_.size()); }
  // Streams of the devices of a kind that work, and those of them that no tile is there for.
  int StreamCount(int kind) const ABSL_LOCKS_EXCLUDED(mutex_);
  int IdleStreamCount(int kind) const ABSL_LOCKS_EXCLUDED(mutex_);

  TileLoad load() const ABSL_LOCKS_EXCLUDED(mutex_);
  DeviceList devices() const ABSL_LOCKS_EXCLUDED(mutex_);  // those that work, by slot

  // The failed device of this slot works again, as this one.
  void Restore(std::shared_ptr<Device> device) ABSL_LOCKS_EXCLUDED(mutex_);

  // Tiles in the queue, and all submitted from now on, get `reason` (not OK); running ones finish.
  // Returns when the threads have ended. Not to be called from a TileDone, nor by two threads.
  void Stop(absl::Status reason) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Slot {
    std::string name;
    int streams = 0;
    std::shared_ptr<Device> device;  // null: it has failed
    absl::Status fault;              // the last
  };
  struct Kind {
    FairQueue queue;
    ThroughputMeter speed;
    int64_t bound_pixels = 0;  // of open requests
  };

  void RunWorker(int slot) ABSL_LOCKS_EXCLUDED(mutex_);
  void RunBatch(const Device& device, Stream& stream, FairQueue::Batch batch)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // `tiles` are those that it failed on.
  void TakeOut(const Device& device, const absl::Status& fault, std::vector<QueuedTile> tiles)
      ABSL_LOCKS_EXCLUDED(mutex_);
  DeviceList DevicesLocked() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // Those that work, soonest done first.
  DeviceList DevicesFor(int64_t pixels) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  bool IsUp(const Device& device) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  int StreamCountLocked(int kind) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // Binds the account for the first time.
  void Adopt(Account& account, const DeviceExecutable& executable, int64_t pixels)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Binds the account, with what it has queued, to a kind of which a device works, preferring the
  // one that it is bound to; false when there is none.
  bool Bind(Account& account) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status NoDevice() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  void DropCancelled(const Submission& submission) ABSL_LOCKS_EXCLUDED(mutex_);
  void FinishDropped(const std::vector<QueuedTile>& tiles) ABSL_LOCKS_EXCLUDED(mutex_);
  void Finish(std::span<const QueuedTile> tiles, const absl::Status& status)
      ABSL_LOCKS_EXCLUDED(mutex_);

  const Clock& clock_;
  const TileSchedulerOptions options_;
  TileObserver* const observer_;
  std::vector<std::thread> workers_;  // one per stream

  mutable absl::Mutex mutex_;
  std::vector<Slot> slots_ ABSL_GUARDED_BY(mutex_);
  std::vector<Kind> kinds_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, std::shared_ptr<Account>> open_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_request_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status stop_reason_ ABSL_GUARDED_BY(mutex_);  // not OK: stopped
};

}  // namespace upscaled::server
