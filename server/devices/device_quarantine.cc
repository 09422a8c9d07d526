#include "server/devices/device_quarantine.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/check.h"
#include "server/base/error.h"

namespace upscaled::server {

DeviceQuarantine::DeviceQuarantine(const DeviceList& devices, Listener listener)
    : listener_(std::move(listener)) {
  UPSCALED_CHECK(!devices.empty());
  absl::MutexLock lock(&mutex_);
  for (const std::shared_ptr<Device>& device : devices) {
    slots_.push_back({device->name(), device, absl::OkStatus()});
  }
}

bool DeviceQuarantine::Add(const Device& device, const absl::Status& fault) {
  absl::MutexLock lock(&mutex_);
  Slot& slot = slots_[device.slot()];
  if (slot.device.get() != &device) return false;
  slot.fault = fault;
  slot.device = nullptr;
  return true;
}

void DeviceQuarantine::Announce(const Device& device, const absl::Status& fault) const {
  if (listener_) listener_(device, fault);
}

void DeviceQuarantine::Restore(std::shared_ptr<Device> device) {
  {
    absl::MutexLock lock(&mutex_);
    slots_[device->slot()].device = device;
  }
  Announce(*device, absl::OkStatus());
}

DeviceList DeviceQuarantine::working() const {
  absl::MutexLock lock(&mutex_);
  DeviceList devices;
  for (const Slot& slot : slots_) {
    if (slot.device != nullptr) devices.push_back(slot.device);
  }
  return devices;
}

std::shared_ptr<Device> DeviceQuarantine::InSlot(int slot) const {
  absl::MutexLock lock(&mutex_);
  return slots_[slot].device;
}

absl::Status DeviceQuarantine::NoDeviceError() const {
  absl::MutexLock lock(&mutex_);
  std::vector<std::string> faults;
  for (const Slot& slot : slots_) {
    if (slot.device == nullptr) {
      faults.push_back(absl::StrCat(slot.name, " failed: ", slot.fault.message()));
    }
  }
  return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kDeviceFailure,
                   absl::StrCat("no device is left to compute on; ", absl::StrJoin(faults, "; ")));
}

}  // namespace upscaled::server
