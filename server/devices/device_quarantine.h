// Knows the working devices, and why the others do not work.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/devices/device.h"

namespace upscaled::server {

// An instance of a device with a failure is in quarantine for good: another instance takes its
// slot. Thread safe.
class DeviceQuarantine {
 public:
  // Is called with every failed instance, once, with its fault, and with every one back in a slot,
  // with OK. Called with no lock held.
  using Listener = std::function<void(const Device& device, const absl::Status& fault)>;

  // `devices` by slot, at least one; all of them work. `listener` may be null.
  explicit DeviceQuarantine(const DeviceList& devices, Listener listener = nullptr);

  // Takes the device out of work; false: it was out already. If true, the caller calls Announce
  // next.
  [[nodiscard]] bool Add(const Device& device, const absl::Status& fault)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Announce(const Device& device, const absl::Status& fault) const;
  // Both: for callers with nothing to do between the two.
  void Report(const Device& device, const absl::Status& fault) {
    if (Add(device, fault)) Announce(device, fault);
  }
  // The failed device of this slot works again, as this instance.
  void Restore(std::shared_ptr<Device> device) ABSL_LOCKS_EXCLUDED(mutex_);

  DeviceList working() const ABSL_LOCKS_EXCLUDED(mutex_);  // by slot
  // Null: the slot's device has failed.
  std::shared_ptr<Device> InSlot(int slot) const ABSL_LOCKS_EXCLUDED(mutex_);
  // UNAVAILABLE (kDeviceFailure), naming the failed devices and their faults.
  absl::Status NoDeviceError() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Slot {
    std::string name;
    std::shared_ptr<Device> device;  // null: it has failed
    absl::Status fault;              // the last
  };

  const Listener listener_;
  mutable absl::Mutex mutex_;
  std::vector<Slot> slots_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace upscaled::server
