#include "engine/backends/cuda/device.h"

#include <cuda_runtime_api.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/backends/cuda/cuda_status.h"
#include "engine/base/string_view.h"

namespace upscaled::cuda {
namespace {

// Kernels are compiled from this compute capability on, as 10 * major + minor.
constexpr int kMinArchitecture = 75;

std::string CapabilityText(int architecture) {
  return absl::StrCat(architecture / 10, ".", architecture % 10);
}

std::string VersionText(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

// How many devices the runtime sees; 0 with a note when it has none to offer.
int CountDevices(int driver, std::vector<std::string>& notes) {
  if (driver == 0) {  // as the runtime says it
    notes.push_back("no CUDA driver");
    return 0;
  }
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return count;
  (void)cudaGetLastError();  // or the next call would report it once more
  const absl::Status status =
      ToStatus(error == cudaSuccess ? cudaErrorNoDevice : error, "cudaGetDeviceCount",
               absl::StrCat("no CUDA device, driver of CUDA ", VersionText(driver)));
  notes.push_back(std::string(status.message()));
  return 0;
}

}  // namespace

std::vector<Device> FindDevices(std::vector<std::string>& notes) {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess) driver = 0;
  std::vector<Device> devices;
  const int count = CountDevices(driver, notes);
  for (int i = 0; i < count; ++i) {
    const std::string name = absl::StrCat("cuda:", i);
    cudaDeviceProp properties;
    const cudaError_t error = cudaGetDeviceProperties(&properties, i);
    if (error != cudaSuccess) {
      (void)cudaGetLastError();
      notes.push_back(std::string(ToStatus(error, "cudaGetDeviceProperties", name).message()));
      continue;
    }
    const int architecture = 10 * properties.major + properties.minor;
    if (architecture < kMinArchitecture) {
      notes.push_back(absl::StrFormat("%s (%s) has compute capability %s, needs %s", name,
                                      properties.name, CapabilityText(architecture),
                                      CapabilityText(kMinArchitecture)));
      continue;
    }
    devices.push_back({.index = i,
                       .name = name,
                       .model = properties.name,
                       .driver = driver,
                       .memory_bytes = properties.totalGlobalMem,
                       .shares_host_memory = properties.integrated != 0,
                       .limits = {.architecture = architecture,
                                  .multiprocessors = properties.multiProcessorCount,
                                  .shared_bytes = properties.sharedMemPerBlockOptin}});
  }
  return devices;
}

absl::StatusOr<Device> FindDevice(std::string_view name) {
  std::vector<std::string> notes;
  std::vector<Device> devices = FindDevices(notes);
  for (Device& device : devices) {
    if (name == "cuda" || device.name == name) return std::move(device);
  }
  for (const Device& device : devices) notes.push_back(absl::StrCat("there is ", device.name));
  return absl::UnavailableError(
      absl::StrCat("no CUDA device '", ToAbsl(name), "': ", absl::StrJoin(notes, "; ")));
}

PluginDevice Describe(const Device& device) {
  return {
      .name = device.name,
      .description = absl::StrFormat(
          "%s, compute capability %s, %d multiprocessors, %d MiB (driver of CUDA %s)", device.model,
          CapabilityText(device.limits.architecture), device.limits.multiprocessors,
          device.memory_bytes >> 20, VersionText(device.driver))};
}

}  // namespace upscaled::cuda
