#include "engine/backends/opencl/device.h"

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/backends/opencl/cl_status.h"
#include "engine/base/string_view.h"

namespace upscaled::opencl {
namespace {

// "OpenCL 1.2 and more text" is at least 1.2.
bool IsAtLeast12(const std::string& version) {
  int major = 0, minor = 0;
  if (std::sscanf(version.c_str(), "OpenCL %d.%d", &major, &minor) != 2) return false;
  return major > 1 || (major == 1 && minor >= 2);
}

// Why this backend cannot use the device; "" if it can.
std::string Unfitness(const cl::Device& device) {
  const std::string version = device.getInfo<CL_DEVICE_VERSION>();
  if (!IsAtLeast12(version)) return absl::StrCat("has ", version, ", needs OpenCL 1.2");
  if (!device.getInfo<CL_DEVICE_AVAILABLE>()) return "is not available";
  if (!device.getInfo<CL_DEVICE_COMPILER_AVAILABLE>()) return "has no compiler";
  if (!device.getInfo<CL_DEVICE_ENDIAN_LITTLE>()) return "is not little endian";
  return "";
}

Device DescribeHandle(const cl::Platform& platform, const cl::Device& handle, std::string name) {
  Device device;
  device.handle = handle;
  device.name = std::move(name);
  device.model = handle.getInfo<CL_DEVICE_NAME>();
  device.vendor = handle.getInfo<CL_DEVICE_VENDOR>();
  device.platform = absl::StrCat(platform.getInfo<CL_PLATFORM_NAME>(), ", ",
                                 platform.getInfo<CL_PLATFORM_VERSION>());
  device.driver =
      absl::StrCat(handle.getInfo<CL_DEVICE_VERSION>(), ", ", handle.getInfo<CL_DRIVER_VERSION>());
  device.is_cpu = (handle.getInfo<CL_DEVICE_TYPE>() & CL_DEVICE_TYPE_CPU) != 0;
  device.memory_bytes = handle.getInfo<CL_DEVICE_GLOBAL_MEM_SIZE>();
  device.shares_host_memory = device.is_cpu || handle.getInfo<CL_DEVICE_HOST_UNIFIED_MEMORY>() != 0;
  device.max_buffer_bytes = handle.getInfo<CL_DEVICE_MAX_MEM_ALLOC_SIZE>();
  device.compute_units = static_cast<int>(handle.getInfo<CL_DEVICE_MAX_COMPUTE_UNITS>());
  return device;
}

}  // namespace

std::vector<Device> FindDevices(std::vector<std::string>& notes) {
  std::vector<cl::Platform> platforms;
  const cl_int error = cl::Platform::get(&platforms);
  if (error != CL_SUCCESS) {
    notes.push_back(
        absl::StrCat("no OpenCL platform: ", ToStatus(error, "clGetPlatformIDs").message()));
    return {};
  }
  std::vector<Device> devices;
  for (size_t p = 0; p < platforms.size(); ++p) {
    std::vector<cl::Device> handles;
    const cl_int device_error = platforms[p].getDevices(CL_DEVICE_TYPE_ALL, &handles);
    if (device_error != CL_SUCCESS || handles.empty()) {
      notes.push_back(absl::StrCat("OpenCL platform '", platforms[p].getInfo<CL_PLATFORM_NAME>(),
                                   "' has no device"));
      continue;
    }
    for (size_t d = 0; d < handles.size(); ++d) {
      std::string name = absl::StrFormat("opencl:%d.%d", p, d);
      const std::string unfitness = Unfitness(handles[d]);
      if (unfitness.empty()) {
        devices.push_back(DescribeHandle(platforms[p], handles[d], std::move(name)));
      } else {
        notes.push_back(
            absl::StrCat(name, " (", handles[d].getInfo<CL_DEVICE_NAME>(), ") ", unfitness));
      }
    }
  }
  return devices;
}

absl::StatusOr<Device> FindDevice(std::string_view name) {
  std::vector<std::string> notes;
  std::vector<Device> devices = FindDevices(notes);
  for (Device& device : devices) {
    if (name == "opencl" || device.name == name) return std::move(device);
  }
  for (const Device& device : devices) notes.push_back(absl::StrCat("there is ", device.name));
  return absl::UnavailableError(
      absl::StrCat("no OpenCL device '", ToAbsl(name), "': ", absl::StrJoin(notes, "; ")));
}

PluginDevice Describe(const Device& device) {
  return {.name = device.name,
          .description = absl::StrFormat("%s, %d compute units, %d MiB (%s, driver %s)",
                                         device.model, device.compute_units,
                                         device.memory_bytes >> 20, device.platform, device.driver),
          .is_cpu = device.is_cpu};
}

}  // namespace upscaled::opencl
