// Knows every device's state, and rebuilds failed ones.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "server/base/timer.h"
#include "server/devices/device.h"
#include "server/telemetry/logger.h"

namespace upscaled::server {

struct DeviceState {
  std::string name;
  std::string description;
  int streams = 0;
  bool up = true;
  int64_t failures = 0;
  absl::Status fault;  // the last; OK: none yet
};

// The delay before an attempt doubles with every failure, and starts again after the device has
// worked for the longest delay.
struct RebuildDelays {
  absl::Duration first = absl::Seconds(1);
  absl::Duration longest = absl::Minutes(1);
};

// Thread safe.
class DeviceSupervisor {
 public:
  // Called with no lock held; all outlive the supervisor.
  struct Hooks {
    // As CreateBackend, by the device's name.
    std::function<absl::StatusOr<std::unique_ptr<Backend>>(const std::string& name)> create;
    // Runs something on a new device. It returns to work only after OK.
    std::function<absl::Status(Device&)> probe;
    std::function<void(std::shared_ptr<Device>)> restore;
    std::function<void()> on_change;  // after every failure and every return
    // No device works, one of them did not answer, and the others could not be rebuilt: only
    // another process may have them. May be null; may be called again.
    std::function<void()> on_hopeless;
  };

  // `devices` by slot; `clock`, `timer` and `logger` must outlive it.
  DeviceSupervisor(const DeviceList& devices, const Clock& clock, Timer& timer, Logger& logger,
                   Hooks hooks, const RebuildDelays& delays = {});
  ~DeviceSupervisor() { Stop(); }

  // Rebuilds from now on until Stop, in a task of the timer. Stop waits for a running attempt.
  void Start();
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  // Once for each instance of a device. DEADLINE_EXCEEDED: it does not answer.
  void OnFailed(const Device& device, const absl::Status& fault) ABSL_LOCKS_EXCLUDED(mutex_);
  // Makes the due attempts; returns the time of the next, possibly never. By one thread at a time.
  absl::Time RebuildDue() ABSL_LOCKS_EXCLUDED(mutex_);

  // Lets time pass for the attempt in progress, and returns its time; zero without one.
  absl::Duration RebuildingFor(absl::Duration passed) ABSL_LOCKS_EXCLUDED(mutex_);

  std::vector<DeviceState> states() const ABSL_LOCKS_EXCLUDED(mutex_);  // by slot
  // For how long no device has been up; zero while one is.
  absl::Duration all_down_for() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Slot {
    DeviceState state;
    int device_class = 0;
    bool hung = false;     // it did not answer, and is not rebuilt: calls to it may never return
    absl::Duration delay;  // before the next attempt
    absl::Time since;      // it is up, or down
    absl::Time due = absl::InfiniteFuture();
  };

  void Rebuild(int slot) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<std::shared_ptr<Device>> Build(const std::string& name, int slot,
                                                int device_class) const;
  // The next attempt, after `fault`; none for a hung device.
  void Schedule(Slot& slot, const absl::Status& fault) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock& clock_;
  Logger& logger_;
  const Hooks hooks_;
  const RebuildDelays delays_;
  const int64_t max_weight_bytes_;  // as the first devices have

  mutable absl::Mutex mutex_;
  std::vector<Slot> slots_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Duration> rebuilding_ ABSL_GUARDED_BY(mutex_);  // the attempt's time
  bool started_ ABSL_GUARDED_BY(mutex_) = false, stopped_ ABSL_GUARDED_BY(mutex_) = false;
  Timer::Task rebuilder_;  // last: it uses what is above
};

}  // namespace upscaled::server
