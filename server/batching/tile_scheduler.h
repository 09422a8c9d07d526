// Runs the tiles of all requests and models on the streams of all devices.
//
// One thread per stream takes work as soon as it is idle: nothing ever waits for a batch to fill.
// While all streams are busy, tiles queue up. The next free stream takes its share of them in a
// single run: tiles of one Executable, up to a cost. Devices of one class share a FairQueue. A
// request is bound to one class, so its image is of one arithmetic.
//
// A failed device goes into quarantine. Its tiles run once more, on another device. If no device of
// the class is left, requests go on with another class; without one they fail. A device with an
// endless run (RunWatch) has failed, too: all other tiles go elsewhere. The tiles of this run wait
// for its return, as it may still write their results. Should it not return, the process has to
// end.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "engine/backends/backend.h"
#include "engine/base/cancellation.h"
#include "engine/base/clock.h"
#include "engine/base/steady_wait.h"
#include "engine/pipeline/tile_executor.h"
#include "server/base/throughput.h"
#include "server/batching/fair_queue.h"
#include "server/batching/request_flow.h"
#include "server/batching/run_watch.h"
#include "server/batching/stream_speeds.h"
#include "server/batching/tile_observer.h"
#include "server/devices/device.h"
#include "server/devices/device_chooser.h"
#include "server/devices/device_quarantine.h"

namespace upscaled::server {

struct TileSchedulerOptions {
  // Bounds of a batch, and so of the delay of a tile just behind it. A larger tile runs by itself.
  // The default cost, in multiply-adds, is about 200 x 1024 source pixels of general-2x: more does
  // not make a large device faster. The time is at the device class's recent speed.
  int64_t max_batch_cost = 30'000'000'000;
  absl::Duration max_batch_time = absl::Milliseconds(50);
  // How long background work waits for the client of an image with tiles to come, in all between
  // two of its Submits.
  absl::Duration max_client_wait = absl::Milliseconds(50);
};

// Thread safe. A drain waits for the requests, not for the scheduler (see admission).
class TileScheduler {
 public:
  // All devices of `quarantine` work. `quarantine`, `clock` and `observer` (may be null) must
  // outlive it.
  TileScheduler(DeviceQuarantine& quarantine, const Clock& clock,
                const TileSchedulerOptions& options = {}, TileObserver* observer = nullptr);
  // Stops as Stop does.
  ~TileScheduler();

  // A request of `payer`: payers share the devices by their weights, and the requests of each share
  // equally. `meter` (may be null) goes with its tiles. A request of several `payers` belongs to
  // the one with the best place. The scheduler chooses again with each Submit, and when one comes
  // or leaves.
  RequestFlow OpenFlow(Payer payer, std::shared_ptr<CostMeter> meter = nullptr,
                       const std::shared_ptr<Payers>& payers = nullptr) ABSL_LOCKS_EXCLUDED(mutex_);

  // Streams of all devices.
  int concurrency() const { return static_cast<int>(workers_.size()); }
  // Streams of the working devices of a class: all, and the ones without a tile.
  int StreamCount(int device_class) const ABSL_LOCKS_EXCLUDED(mutex_);
  int IdleStreamCount(int device_class) const ABSL_LOCKS_EXCLUDED(mutex_);

  TileLoad load() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<DeviceClassWork> work() const ABSL_LOCKS_EXCLUDED(mutex_);  // by device class
  // The speed of one stream of its device class, as StreamSpeeds::Of.
  double StreamSpeed(const DeviceExecutable& executable) const ABSL_LOCKS_EXCLUDED(mutex_);

  // To be called after the quarantine has announced the device, as failed or as working again.
  void OnDeviceChanged(const Device& device) ABSL_LOCKS_EXCLUDED(mutex_);

  static constexpr absl::Duration kRunCheck = absl::Seconds(1);
  // Lets time pass for the unfinished runs. The device of an overdue run has failed, with
  // DEADLINE_EXCEEDED, and is given up. To be called every kRunCheck. Runs TileDones. Returns true
  // if a run has not returned even so: only the end of the process frees its tiles and its stream.
  [[nodiscard]] bool WatchRuns(absl::Duration passed) ABSL_LOCKS_EXCLUDED(mutex_);

  // Tiles in the queue, and all submitted from now on, get `reason` (not OK); running ones finish.
  // Returns when the threads have ended. Not to be called from a TileDone, nor by two threads.
  void Stop(absl::Status reason) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  friend class RequestFlow;
  struct StrandedTile {
    SubmittedTile tile;
    absl::Status why;
  };
  struct DeviceClass {
    FairQueue queue;
    ThroughputMeter speed;  // of all its streams
    StreamSpeeds stream_speeds;
  };

  void Adopt(Flow& flow, DeviceChooser::Choice choice) ABSL_LOCKS_EXCLUDED(mutex_);
  void Submit(const std::shared_ptr<Flow>& flow, const Executable& executable,
              std::vector<TileTask> tiles, Cancellation* cancellation, TileExecutor::TileDone done)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<int> KeepClass(Flow& flow) ABSL_LOCKS_EXCLUDED(mutex_);
  RequestUsage UsageOf(const Flow& flow) const ABSL_LOCKS_EXCLUDED(mutex_);
  void ExpectTiles(Flow& flow, bool more) ABSL_LOCKS_EXCLUDED(mutex_);
  void SetClientWait(Flow& flow, bool waits) ABSL_LOCKS_EXCLUDED(mutex_);
  void Close(Flow& flow) ABSL_LOCKS_EXCLUDED(mutex_);
  Payer PayerOf(const Flow& flow) const ABSL_LOCKS_EXCLUDED(mutex_);
  void ChoosePayer(Flow& flow) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Queues the tiles of `submission` for `executable`, or says why not.
  absl::Status Enqueue(const std::shared_ptr<Flow>& flow, const Executable& executable,
                       const std::shared_ptr<Submission>& submission) ABSL_LOCKS_EXCLUDED(mutex_);
  void RunWorker(int slot) ABSL_LOCKS_EXCLUDED(mutex_);
  void RunBatch(const std::shared_ptr<Device>& device_kept, Stream& stream, FairQueue::Batch batch)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Multiply-adds per second of a stream, as StreamSpeeds::LastOf.
  double LastSpeed(const Device& device, const FairQueue::Batch& batch) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // `tiles`: of the failed run. Others in the device's queue move when the quarantine announces the
  // failure.
  void OnFault(const Device& device, const absl::Status& fault, std::vector<SubmittedTile> tiles)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Puts tiles of a failed run back into their queues. Returns the tiles without a next try, and
  // why.
  std::vector<StrandedTile> PutBack(std::span<SubmittedTile> tiles)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes over the quarantine's state of the device's slot. If no device of the class is left,
  // moves the class's queued tiles. Returns the tiles without a device.
  std::vector<StrandedTile> UpdateSlot(const Device& device) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether background work of a device class waits for the interactive tiles to come.
  bool HoldsBack(int device_class) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // Waits until the stream of a slot may have something to do: another device than this, or tiles.
  // Returns the latest priority of tiles for it.
  Priority AwaitWork(int slot, const std::shared_ptr<Device>& device)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The maximum cost of one batch of one of the class's streams.
  int64_t MaxBatchCost(const DeviceClass& device_class, int streams) const;
  int StreamCountLocked(int device_class) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // Binds the flow and its queued tiles to a class with a working device, preferably to its present
  // one. UNAVAILABLE (kDeviceFailure) if no class for it is left.
  absl::Status Bind(Flow& flow) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropCancelled(Submission& submission) ABSL_LOCKS_EXCLUDED(mutex_);
  void FinishDropped(const std::vector<SubmittedTile>& tiles) ABSL_LOCKS_EXCLUDED(mutex_);
  static void Finish(std::span<const SubmittedTile> tiles, const absl::Status& status);
  static void FinishStranded(std::span<const StrandedTile> tiles);

  DeviceQuarantine& quarantine_;
  const Clock& clock_;
  const TileSchedulerOptions options_;
  TileObserver* const observer_;
  std::vector<std::thread> workers_;  // one per stream
  RunWatch watch_;

  mutable absl::Mutex mutex_;  // also guards the flows
  SteadyCondition unheld_;     // for streams that hold background work back
  // The device of each slot's workers; null: it has failed.
  DeviceList slots_ ABSL_GUARDED_BY(mutex_);
  std::vector<DeviceClass> classes_ ABSL_GUARDED_BY(mutex_);
  std::set<const Flow*> expected_ ABSL_GUARDED_BY(mutex_);  // interactive ones with tiles to come
  uint64_t last_flow_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status stop_reason_ ABSL_GUARDED_BY(mutex_);  // not OK: stopped
};

}  // namespace upscaled::server
