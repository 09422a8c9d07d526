// The interface of a backend in a shared object of its own. backend_list.cc loads it when present,
// so that one program runs with and without the driver that the plugin needs.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/backends/backend.h"

namespace upscaled {

struct PluginDevice {
  std::string name;         // as CreateBackend takes it: "opencl:0.0"
  std::string description;  // human-readable
  bool is_cpu = false;      // runs on the machine's CPU, which our own kernels use better
  // The kernels that it has, once BackendOptions::proven_kernels lists them.
  std::vector<std::string> unproven_kernels = {};
};

struct PluginDevices {
  std::vector<PluginDevice> devices;
  std::vector<std::string> notes;  // devices that were not usable, and why
};

struct BackendPlugin {
  // PluginAbi(), as the plugin was compiled. Read before anything else.
  const char* abi;
  PluginDevices (*enumerate)();
  // `device` is one of enumerate()'s, or only the plugin's name for the first. UNAVAILABLE when
  // there is no such device; INVALID_ARGUMENT names an option that it cannot honour.
  absl::StatusOr<std::unique_ptr<Backend>> (*create)(std::string_view device,
                                                     const BackendOptions& options);
};

// Plugin and program share C++ types: the facts that must be equal on both sides (version,
// compiler, sizes, text of the headers).
const char* PluginAbi();

// The one symbol that a plugin exports.
inline constexpr char kPluginSymbol[] = "UpscaledBackendPlugin";
using PluginEntry = const BackendPlugin*();

// UNAVAILABLE when the file is not there or the loader refuses it (it says why), as for a plugin
// whose driver library is missing; FAILED_PRECONDITION for a plugin of another build. A plugin
// stays loaded until the process ends.
absl::StatusOr<const BackendPlugin*> LoadPlugin(const std::string& path);

}  // namespace upscaled
