// The OpenCL devices of this machine.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/backends/opencl/cl.h"
#include "engine/backends/plugin.h"

namespace upscaled::opencl {

// A device that this backend runs on.
struct Device {
  cl::Device handle;
  std::string name;  // "opencl:P.D", by index of platform and of device in it
  std::string model;
  std::string vendor;
  std::string platform;  // name and version
  std::string driver;    // versions of the device's OpenCL and of its driver
  bool is_cpu = false;
  size_t memory_bytes = 0;
  bool shares_host_memory = false;  // has none of its own
  size_t max_buffer_bytes = 0;
  int compute_units = 0;
};

// Lists usable devices: OpenCL 1.2 or later, with a compiler, little endian. `notes` names the
// others, or why no device was found.
std::vector<Device> FindDevices(std::vector<std::string>& notes);

// `name` is "opencl:P.D" or "opencl" for the first. UNAVAILABLE lists the available ones.
absl::StatusOr<Device> FindDevice(std::string_view name);

// As ListDevices of the plugin gives it.
PluginDevice Describe(const Device& device);

}  // namespace upscaled::opencl
