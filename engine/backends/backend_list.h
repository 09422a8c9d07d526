// The devices that this program can compute on: its own backends, and the backends of the plugins
// installed with it, or with the shared library of this code.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/backends/backend.h"

namespace upscaled {

struct DeviceEnumeration {
  struct Device {
    std::string name;                                // "cpu", "reference", "opencl:0.0"
    std::string description;                         // a plugin's device: human-readable
    std::vector<std::string> unproven_kernels = {};  // as PluginDevice's
    std::string build = {};                          // BuildIdOf the plugin
  };
  std::vector<Device> devices;     // best first
  std::vector<std::string> notes;  // which plugins or devices are not usable, and why
};

// Loads the plugins and asks their drivers.
DeviceEnumeration EnumerateDevices();

// Makes the backend of a device by its name.
using BackendFactory =
    std::function<absl::StatusOr<std::unique_ptr<Backend>>(const std::string& device)>;

// The best device of the enumeration that `create` does not call UNAVAILABLE.
absl::StatusOr<std::unique_ptr<Backend>> CreateBest(const DeviceEnumeration& enumeration,
                                                    const BackendFactory& create);

// `device` is of EnumerateDevices(), or "auto" for the first that works here, or "opencl" for the
// first OpenCL device. NOT_FOUND lists the known ones; UNAVAILABLE says why a plugin's device is
// not there; INVALID_ARGUMENT names an option that the device cannot honour.
absl::StatusOr<std::unique_ptr<Backend>> CreateBackend(std::string_view device,
                                                       const BackendOptions& options);

}  // namespace upscaled
