// The CUDA devices of this machine.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/backends/cuda/kernels/device_limits.h"
#include "engine/backends/plugin.h"

namespace upscaled::cuda {

// A device of this backend.
struct Device {
  int index = 0;      // as the runtime counts
  std::string name;   // "cuda:N"
  std::string model;  // as its maker calls it
  int driver = 0;     // the CUDA version that the driver supports, as 1000 * major + 10 * minor
  size_t memory_bytes = 0;
  bool shares_host_memory = false;  // has none of its own
  DeviceLimits limits;
};

// Those usable: compute capability 7.5 or later. Others, and why nothing was found, go to
// `notes`.
std::vector<Device> FindDevices(std::vector<std::string>& notes);

// `name` is "cuda:N" or "cuda" for the first. UNAVAILABLE lists the devices.
absl::StatusOr<Device> FindDevice(std::string_view name);

// As the plugin's enumeration gives it.
PluginDevice Describe(const Device& device);

}  // namespace upscaled::cuda
