// A device and its compiled networks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/backends/backend.h"
#include "engine/model/network.h"
#include "engine/model/precision.h"
#include "server/models/model_cache.h"

namespace upscaled::server {

// One instance of a device, from its start to its failure: the rebuilt one in its place is another.
// Thread safe.
class Device {
 public:
  // `slot` is the device's place among those of the server; devices of one class, counted from 0,
  // compute bit-exactly alike. `max_weight_bytes` as in ModelCache.
  Device(std::unique_ptr<Backend> backend, int slot, int device_class,
         int64_t max_weight_bytes = ModelCache::kNoLimit)
      : slot_(slot),
        device_class_(device_class),
        name_(backend->name()),
        backend_(std::move(backend)),
        models_(*backend_, max_weight_bytes),
        build_(BuildOf(*backend_)) {}

  int slot() const { return slot_; }
  int device_class() const { return device_class_; }
  const std::string& name() const { return name_; }
  Backend& backend() { return *backend_; }
  const Backend& backend() const { return *backend_; }
  ModelCache& models() { return models_; }
  int stream_count() const;  // at least 1
  // Backend::arithmetic, and the build of its code: a plugin's is not the program's.
  std::string arithmetic() const;

 private:
  static std::string BuildOf(const Backend& backend);

  const int slot_;
  const int device_class_;
  const std::string name_;
  const std::unique_ptr<Backend> backend_;
  ModelCache models_;
  const std::string build_;
};

using DeviceList = std::vector<std::shared_ptr<Device>>;

// One for each, in this order. Devices of one backend with equal descriptions (make, driver) are of
// one class: the same kernels run on them. `max_weight_bytes`: of each device, as in ModelCache.
// INVALID_ARGUMENT when a device is there twice.
absl::StatusOr<DeviceList> MakeDevices(std::vector<std::unique_ptr<Backend>> backends,
                                       int64_t max_weight_bytes = ModelCache::kNoLimit);

// OK if one of the devices has the precision for this network, otherwise the first device's error.
// UNAVAILABLE without devices.
absl::Status TryPrecision(const DeviceList& devices, const Network& network, Precision precision);

// Whether any of the devices has the precision, for networks that run in it.
bool HasPrecision(const DeviceList& devices, Precision precision);

// Bytes of the network on the first device with an answer before compiling: packed weights, and the
// scratch memory of every stream. 0: none does.
int64_t PlanMemory(const DeviceList& devices, const Network& network, Precision precision);

// True if a backend's error counts against the device: every error except those about the task or
// memory.
bool IsDeviceFault(const absl::Status& status);

// The same for an error of a load: the device is not there, or does not answer. INTERNAL may also
// concern the model's files.
bool IsLoadFault(const absl::Status& status);

}  // namespace upscaled::server
