#include "server/devices/device.h"

#include <algorithm>
#include <string_view>
#include <typeinfo>

#include "absl/strings/str_cat.h"
#include "engine/base/build_id.h"

namespace upscaled::server {
namespace {

// "opencl" of "opencl:0.1".
std::string_view Family(const Backend& backend) {
  return backend.name().substr(0, backend.name().find(':'));
}

bool SameClass(const Backend& a, const Backend& b) {
  return Family(a) == Family(b) && a.description() == b.description();
}

}  // namespace

int Device::stream_count() const { return std::max(backend_->StreamCount(), 1); }

std::string Device::arithmetic() const {
  return absl::StrCat(backend_->arithmetic(), ", build ", build_);
}

// The file with the type is the one with its code.
std::string Device::BuildOf(const Backend& backend) { return BuildIdOf(&typeid(backend)); }

absl::StatusOr<DeviceList> MakeDevices(std::vector<std::unique_ptr<Backend>> backends,
                                       int64_t max_weight_bytes) {
  DeviceList devices;
  int classes = 0;
  for (std::unique_ptr<Backend>& backend : backends) {
    for (const auto& other : devices) {
      if (other->name() != backend->name()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("--device names ", other->name(), " more than once"));
    }
    const auto twin = std::find_if(devices.begin(), devices.end(), [&](const auto& other) {
      return SameClass(other->backend(), *backend);
    });
    const int device_class = twin == devices.end() ? classes++ : (*twin)->device_class();
    const auto slot = static_cast<int>(devices.size());
    devices.push_back(
        std::make_shared<Device>(std::move(backend), slot, device_class, max_weight_bytes));
  }
  return devices;
}

absl::Status TryPrecision(const DeviceList& devices, const Network& network, Precision precision) {
  if (devices.empty()) return absl::UnavailableError("no device is left to try it on");
  absl::Status refusal;
  for (const std::shared_ptr<Device>& device : devices) {
    const absl::Status status = device->backend().Compile(network, precision).status();
    if (status.ok()) return status;
    refusal.Update(status);
  }
  return refusal;
}

bool HasPrecision(const DeviceList& devices, Precision precision) {
  return std::any_of(devices.begin(), devices.end(), [precision](const auto& device) {
    return device->backend().CheckPrecision(precision).ok();
  });
}

int64_t PlanMemory(const DeviceList& devices, const Network& network, Precision precision) {
  for (const std::shared_ptr<Device>& device : devices) {
    const absl::StatusOr<MemoryNeed> need = device->backend().PlanMemory(network, precision);
    if (!need.ok()) continue;
    return static_cast<int64_t>(need->weight_bytes +
                                device->stream_count() * need->workspace_bytes);
  }
  return 0;
}

bool IsDeviceFault(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kResourceExhausted:
      return false;
    default:
      return true;
  }
}

bool IsLoadFault(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

}  // namespace upscaled::server
