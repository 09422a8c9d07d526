#include "server/devices/device_supervisor.h"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "engine/base/status_macros.h"

namespace upscaled::server {

DeviceSupervisor::DeviceSupervisor(const DeviceList& devices, const Clock& clock, Timer& timer,
                                   Logger& logger, Hooks hooks, const RebuildDelays& delays)
    : clock_(clock),
      logger_(logger),
      hooks_(std::move(hooks)),
      delays_(delays),
      max_weight_bytes_(devices.front()->models().max_weight_bytes()),
      rebuilder_(timer, Timer::Length::kMayBlock,
                 [this] { rebuilder_.Request(RebuildDue() - clock_.Now()); }) {
  absl::MutexLock lock(&mutex_);
  for (const std::shared_ptr<Device>& device : devices) {
    Slot slot;
    slot.state = {.name = device->name(),
                  .description = device->backend().description(),
                  .streams = device->stream_count()};
    slot.device_class = device->device_class();
    slot.delay = delays_.first;
    slot.since = clock_.Now();
    slots_.push_back(std::move(slot));
  }
}

void DeviceSupervisor::Start() {
  {
    absl::MutexLock lock(&mutex_);
    started_ = true;
  }
  rebuilder_.Request();
}

void DeviceSupervisor::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
  }
  rebuilder_.Stop();
}

void DeviceSupervisor::OnFailed(const Device& device, const absl::Status& fault) {
  bool hopeless = false;
  {
    absl::MutexLock lock(&mutex_);
    Slot& slot = slots_[device.slot()];
    slot.state.up = false;
    slot.state.fault = fault;
    ++slot.state.failures;
    const absl::Time now = clock_.Now();
    if (now - std::exchange(slot.since, now) >= delays_.longest) slot.delay = delays_.first;
    Schedule(slot, fault);
    if (started_) rebuilder_.Request(slot.due - now);
    // Others may come back: their next attempt tells.
    hopeless = std::ranges::all_of(slots_, &Slot::hung);
  }
  const std::string error = fault.ToString();
  const LogField fields[] = {{"device", device.name()}, {"error", error}};
  logger_.Log(LogLevel::kError, "a device failed and is taken out", fields);
  hooks_.on_change();
  if (hopeless && hooks_.on_hopeless) hooks_.on_hopeless();
}

absl::Time DeviceSupervisor::RebuildDue() {
  const absl::Time now = clock_.Now();
  std::vector<int> due;
  {
    absl::MutexLock lock(&mutex_);
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].due <= now) due.push_back(static_cast<int>(i));
    }
  }
  for (const int slot : due) Rebuild(slot);
  absl::MutexLock lock(&mutex_);
  absl::Time next = absl::InfiniteFuture();
  for (const Slot& slot : slots_) next = std::min(next, slot.due);
  return next;
}

void DeviceSupervisor::Rebuild(int slot) {
  std::string name;
  int device_class = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (stopped_) return;
    name = slots_[slot].state.name;
    device_class = slots_[slot].device_class;
    rebuilding_ = absl::ZeroDuration();
  }
  absl::StatusOr<std::shared_ptr<Device>> device = Build(name, slot, device_class);
  absl::Duration delay;
  bool hopeless = false;
  {
    absl::MutexLock lock(&mutex_);
    rebuilding_.reset();
    Slot& rebuilt = slots_[slot];
    if (device.ok()) {
      rebuilt.state.up = true;
      rebuilt.since = clock_.Now();
      rebuilt.due = absl::InfiniteFuture();
    } else {
      rebuilt.state.fault = device.status();
      Schedule(rebuilt, device.status());
      delay = rebuilt.due - clock_.Now();
      hopeless = std::ranges::none_of(slots_, [](const Slot& s) { return s.state.up; }) &&
                 std::ranges::any_of(slots_, &Slot::hung);
    }
  }
  if (!device.ok()) {
    const std::string error = device.status().ToString(), next = absl::FormatDuration(delay);
    const LogField fields[] = {{"device", name}, {"error", error}, {"next_attempt_in", next}};
    logger_.Log(LogLevel::kWarning, "a device could not be rebuilt", fields);
    if (hopeless && hooks_.on_hopeless) hooks_.on_hopeless();
    return;
  }
  hooks_.restore(*std::move(device));
  const LogField fields[] = {{"device", name}};
  logger_.Log(LogLevel::kInfo, "a device was rebuilt and works again", fields);
  hooks_.on_change();
}

absl::StatusOr<std::shared_ptr<Device>> DeviceSupervisor::Build(const std::string& name, int slot,
                                                                int device_class) const try {
  ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, hooks_.create(name));
  auto device = std::make_shared<Device>(std::move(backend), slot, device_class, max_weight_bytes_);
  RETURN_IF_ERROR(hooks_.probe(*device));
  return device;
} catch (const std::bad_alloc&) {
  return absl::ResourceExhaustedError("out of memory");
} catch (const std::exception& error) {
  return absl::InternalError(error.what());
}

void DeviceSupervisor::Schedule(Slot& slot, const absl::Status& fault) {
  slot.hung = absl::IsDeadlineExceeded(fault);
  if (slot.hung) {
    slot.due = absl::InfiniteFuture();
    return;
  }
  slot.due = clock_.Now() + slot.delay;
  slot.delay = std::min(2 * slot.delay, delays_.longest);
}

absl::Duration DeviceSupervisor::RebuildingFor(absl::Duration passed) {
  absl::MutexLock lock(&mutex_);
  if (!rebuilding_.has_value()) return absl::ZeroDuration();
  return *rebuilding_ += passed;
}

std::vector<DeviceState> DeviceSupervisor::states() const {
  absl::MutexLock lock(&mutex_);
  std::vector<DeviceState> states;
  for (const Slot& slot : slots_) states.push_back(slot.state);
  return states;
}

absl::Duration DeviceSupervisor::all_down_for() const {
  absl::MutexLock lock(&mutex_);
  absl::Time since = absl::InfinitePast();
  for (const Slot& slot : slots_) {
    if (slot.state.up) return absl::ZeroDuration();
    since = std::max(since, slot.since);
  }
  return clock_.Now() - since;
}

}  // namespace upscaled::server
