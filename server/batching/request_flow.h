// One request's flow of tiles through the scheduler.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/pipeline/tile_executor.h"
#include "server/batching/fair_queue.h"
#include "server/devices/device_chooser.h"

namespace upscaled::server {

class TileScheduler;

// The TileExecutor of a request's pipeline: runs tiles of the request's networks. Closed by
// destruction. Queued tiles still run afterwards. Must not outlive the scheduler. Thread safe, but
// for Adopt.
class RequestFlow final : public TileExecutor {
 public:
  RequestFlow(RequestFlow&& other) noexcept = default;
  RequestFlow& operator=(RequestFlow&&) = delete;
  ~RequestFlow() override;

  // The networks of its tiles, all on the same devices. At most once, before Submit.
  void Adopt(DeviceChooser::Choice choice);

  // Runs the tiles on devices of one class only from now on, for results named by its arithmetic.
  // Returns the class: the flow's one, or another one if all devices of it have failed since.
  // UNAVAILABLE (kDeviceFailure) if no device is left. After Adopt.
  absl::StatusOr<int> KeepClass();

  // `executable` is one of the adopted ones. A tile's own error, and one of memory (with a retry
  // delay), does not touch the other tiles of its batch. After a device's failure a tile gets
  // INTERNAL (kDeviceFailure) if it is the second to fail with it, UNAVAILABLE (kDeviceFailure) if
  // no other device can take it. TileDone is called with no lock held, from here when the tiles are
  // not accepted.
  void Submit(std::shared_ptr<const Executable> executable, std::vector<TileTask> tiles,
              Cancellation* cancellation, TileDone done) override;

  // From now on the request, if it is interactive, has tiles to come, or has none: background work
  // of its devices waits for them (see README).
  void ExpectTiles(bool more);
  // Says whether the request waits for its client. Background work does not wait long for it then.
  void SetClientWait(bool waits);
  // The time of such a wait.
  class ClientWait {
   public:
    explicit ClientWait(RequestFlow& flow) : flow_(flow) { flow_.SetClientWait(true); }
    ~ClientWait() { flow_.SetClientWait(false); }
    ClientWait(const ClientWait&) = delete;
    ClientWait& operator=(const ClientWait&) = delete;

   private:
    RequestFlow& flow_;
  };

  int concurrency() const override;  // streams of all devices
  RequestUsage usage() const;

  // The payer of the request now, and how often it has changed.
  Payer payer() const;
  int64_t payer_changes() const { return flow_->payer_changes; }

 private:
  friend class TileScheduler;
  RequestFlow(TileScheduler& scheduler, std::shared_ptr<Flow> flow)
      : scheduler_(scheduler), flow_(std::move(flow)) {}

  TileScheduler& scheduler_;
  std::shared_ptr<Flow> flow_;  // null: moved from
};

}  // namespace upscaled::server
