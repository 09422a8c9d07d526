#include "server/devices/device_chooser.h"

#include <algorithm>
#include <memory>

#include "absl/time/time.h"
#include "engine/base/status_macros.h"

namespace upscaled::server {

DeviceChooser::Binding& DeviceChooser::Binding::operator=(Binding&& other) noexcept {
  if (this != &other) {
    Release();
    owner_ = std::exchange(other.owner_, nullptr);
    device_class_ = other.device_class_;
    pixels_ = other.pixels_;
  }
  return *this;
}

void DeviceChooser::Binding::Release() {
  DeviceChooser* const owner = std::exchange(owner_, nullptr);
  if (owner != nullptr) owner->AddPixels(device_class_, -pixels_);
}

void DeviceChooser::Binding::MoveTo(int device_class) {
  if (owner_ == nullptr) return;
  owner_->AddPixels(device_class_, -pixels_);
  owner_->AddPixels(device_class, pixels_);
  device_class_ = device_class;
}

DeviceChooser::DeviceChooser(DeviceQuarantine& quarantine,
                             std::function<std::vector<DeviceClassWork>()> work)
    : quarantine_(quarantine), work_(std::move(work)) {}

absl::StatusOr<DeviceChooser::Choice> DeviceChooser::Load(
    const ModelCard& card, std::span<const ModelVariant* const> variants, Precision precision,
    int64_t pixels) {
  if (variants.empty()) return Choice();
  const DeviceList devices = DevicesFor(pixels);
  if (devices.empty()) return quarantine_.NoDeviceError();
  absl::StatusOr<DeviceExecutables> executables = LoadOnDevices(
      devices, card, variants, precision, [this](const Device& device, const absl::Status& fault) {
        quarantine_.Report(device, fault);
      });
  if (absl::IsUnavailable(executables.status())) return quarantine_.NoDeviceError();
  RETURN_IF_ERROR(executables.status());
  const int device_class = executables->front()->device_class();
  AddPixels(device_class, pixels);
  return Choice{*std::move(executables), Binding(this, device_class, pixels)};
}

DeviceList DeviceChooser::DevicesFor(int64_t pixels) const {
  const std::vector<DeviceClassWork> work = work_();
  std::vector<absl::Duration> time;  // until all is done, by device class
  {
    absl::MutexLock lock(&mutex_);
    for (size_t i = 0; i < work.size(); ++i) {
      const int64_t bound_pixels = i < bound_pixels_.size() ? bound_pixels_[i] : 0;
      // One request finds out how fast a device class is, others do not wait for that.
      time.push_back(work[i].speed.known() || (bound_pixels == 0 && work[i].idle)
                         ? work[i].speed.TimeFor(bound_pixels + work[i].queued_pixels + pixels)
                         : absl::InfiniteDuration());
    }
  }
  DeviceList devices = quarantine_.working();
  std::ranges::stable_sort(devices, {},
                           [&](const auto& device) { return time[device->device_class()]; });
  return devices;
}

void DeviceChooser::AddPixels(int device_class, int64_t pixels) {
  absl::MutexLock lock(&mutex_);
  bound_pixels_.resize(std::max<size_t>(bound_pixels_.size(), device_class + 1));
  bound_pixels_[device_class] += pixels;
}

}  // namespace upscaled::server
