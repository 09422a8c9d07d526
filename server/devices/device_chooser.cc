#include "server/devices/device_chooser.h"

#include <algorithm>
#include <memory>

#include "absl/time/time.h"
#include "engine/base/status_macros.h"

namespace upscaled::server {

namespace {

// The cost of a source of `pixels` pixels through one network after the other, in multiply-adds,
// without the halos of tiles; at least one a pixel.
int64_t CostFor(const DeviceExecutables& executables, int64_t pixels) {
  double cost = 0;
  auto pass_pixels = static_cast<double>(pixels);
  for (const std::shared_ptr<const DeviceExecutable>& executable : executables) {
    const Network& network = executable->network();
    const double result_pixels = pass_pixels * network.scale * network.scale;
    cost += std::max(result_pixels * network.MacsPerOutputPixel(), pass_pixels);
    pass_pixels = result_pixels;
  }
  return static_cast<int64_t>(std::min(cost, kMaxCost));
}

// The same on the same devices, classes with the shortest times first.
std::shared_ptr<const DeviceExecutable> SoonestFirst(const DeviceExecutable& executable,
                                                     const std::vector<absl::Duration>& times) {
  std::vector<DeviceExecutable::Part> parts(executable.parts().begin(), executable.parts().end());
  std::ranges::stable_sort(parts, {},
                           [&](const auto& part) { return times[part.device->device_class()]; });
  return std::make_shared<const DeviceExecutable>(std::move(parts));
}

}  // namespace

DeviceChooser::Binding& DeviceChooser::Binding::operator=(Binding&& other) noexcept {
  if (this != &other) {
    Release();
    owner_ = std::exchange(other.owner_, nullptr);
    device_class_ = other.device_class_;
    cost_ = other.cost_;
  }
  return *this;
}

void DeviceChooser::Binding::Release() {
  DeviceChooser* const owner = std::exchange(owner_, nullptr);
  if (owner != nullptr) owner->AddCost(device_class_, -cost_);
}

void DeviceChooser::Binding::MoveTo(int device_class) {
  if (owner_ == nullptr) return;
  owner_->AddCost(device_class_, -cost_);
  owner_->AddCost(device_class, cost_);
  device_class_ = device_class;
}

DeviceChooser::DeviceChooser(DeviceQuarantine& quarantine,
                             std::function<std::vector<DeviceClassWork>()> work)
    : quarantine_(quarantine), work_(std::move(work)) {}

absl::StatusOr<DeviceChooser::Choice> DeviceChooser::Load(std::span<const ModelPass> passes,
                                                          Precision precision, int64_t pixels,
                                                          Cancellation* cancellation) {
  if (passes.empty()) return Choice();
  const DeviceList devices = quarantine_.working();
  if (devices.empty()) return quarantine_.NoDeviceError();
  absl::StatusOr<DeviceExecutables> executables =
      LoadOnDevices(devices, passes, precision, cancellation,
                    [this](const Device& device, const absl::Status& fault) {
                      quarantine_.Report(device, fault);
                    });
  if (cancellation != nullptr) RETURN_IF_ERROR(cancellation->status());
  if (IsLoadFault(executables.status())) return quarantine_.NoDeviceError();
  RETURN_IF_ERROR(executables.status());
  const int64_t cost = CostFor(*executables, pixels);
  const std::vector<absl::Duration> times = TimesFor(cost);
  for (auto& executable : *executables) executable = SoonestFirst(*executable, times);
  const int device_class = executables->front()->device_class();
  AddCost(device_class, cost);
  return Choice{*std::move(executables), Binding(this, device_class, cost)};
}

std::vector<absl::Duration> DeviceChooser::TimesFor(int64_t cost) const {
  const std::vector<DeviceClassWork> work = work_();
  std::vector<absl::Duration> times;
  absl::MutexLock lock(&mutex_);
  for (size_t i = 0; i < work.size(); ++i) {
    const int64_t bound_cost = i < bound_cost_.size() ? bound_cost_[i] : 0;
    // One request finds out the speed of a device class, and others do not wait for it.
    times.push_back(work[i].speed.known() || (bound_cost == 0 && work[i].idle)
                        ? work[i].speed.TimeFor(bound_cost + work[i].queued_cost + cost)
                        : absl::InfiniteDuration());
  }
  return times;
}

void DeviceChooser::AddCost(int device_class, int64_t cost) {
  absl::MutexLock lock(&mutex_);
  bound_cost_.resize(std::max<size_t>(bound_cost_.size(), device_class + 1));
  bound_cost_[device_class] += cost;
}

}  // namespace upscaled::server
