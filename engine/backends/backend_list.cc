#include "engine/backends/backend_list.h"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>
#include <span>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/backends/cpu/cpu_backend.h"
#include "engine/backends/plugin.h"
#include "engine/backends/reference/reference_backend.h"
#include "engine/base/build_id.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"

namespace upscaled {
namespace {

struct BuiltIn {
  const char* name;
  absl::StatusOr<std::unique_ptr<Backend>> (*create)(const BackendOptions& options);
};

// Best first.
constexpr BuiltIn kBuiltIns[] = {
    {"cpu", CreateCpuBackend},
    {"reference", CreateReferenceBackend},
};

struct Plugin {
  const char* name;  // its devices', in front of a colon
  const char* file;
};

// Best first.
constexpr Plugin kPlugins[] = {
    {"cuda", "libupscaled_cuda.so"},
    {"opencl", "libupscaled_opencl.so"},
};

// Where plugins lie, seen from the shared library that this code is in, or else from the program.
std::filesystem::path PluginFolder() {
  std::error_code error;
  Dl_info ignored;
  link_map* file = nullptr;
  const void* const here = reinterpret_cast<const void*>(&PluginFolder);
  const bool found = dladdr1(here, &ignored, reinterpret_cast<void**>(&file), RTLD_DL_LINKMAP) != 0;
  if (found && file->l_name[0] != '\0') {  // the program's name is empty
    return std::filesystem::weakly_canonical(file->l_name, error).parent_path() / "upscaled";
  }
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  return (program.parent_path() / UPSCALED_PLUGIN_FOLDER).lexically_normal();
}

absl::StatusOr<const BackendPlugin*> Load(const Plugin& plugin) {
  return LoadPlugin((PluginFolder() / plugin.file).string());
}

// Null when `device` is not of a plugin.
const Plugin* PluginOf(std::string_view device) {
  for (const Plugin& plugin : kPlugins) {
    if (device == plugin.name || absl::StartsWith(ToAbsl(device), absl::StrCat(plugin.name, ":"))) {
      return &plugin;
    }
  }
  return nullptr;
}

absl::StatusOr<std::unique_ptr<Backend>> CreateKnown(std::string_view device,
                                                     const BackendOptions& options) {
  for (const BuiltIn& built_in : kBuiltIns) {
    if (device == built_in.name) return built_in.create(options);
  }
  if (const Plugin* plugin = PluginOf(device); plugin != nullptr) {
    ASSIGN_OR_RETURN(const BackendPlugin* loaded, Load(*plugin));
    return loaded->create(device, options);
  }
  const DeviceEnumeration enumeration = EnumerateDevices();
  return absl::NotFoundError(absl::StrCat(
      "no device '", ToAbsl(device), "', there are: auto, ",
      absl::StrJoin(enumeration.devices, ", ",
                    [](std::string* out, const auto& found) { out->append(found.name); })));
}

}  // namespace

DeviceEnumeration EnumerateDevices() {
  DeviceEnumeration enumeration;
  std::vector<DeviceEnumeration::Device> slower;  // than our own kernels on the same CPU
  for (const Plugin& plugin : kPlugins) {
    const absl::StatusOr<const BackendPlugin*> loaded = Load(plugin);
    if (!loaded.ok()) {
      enumeration.notes.push_back(absl::StrCat(plugin.name, ": ", loaded.status().message()));
      continue;
    }
    PluginDevices found = (*loaded)->enumerate();
    const std::string build = BuildIdOf(*loaded);
    for (PluginDevice& device : found.devices) {
      (device.is_cpu ? slower : enumeration.devices)
          .push_back({std::move(device.name), std::move(device.description),
                      std::move(device.unproven_kernels), build});
    }
    for (const std::string& note : found.notes) {
      enumeration.notes.push_back(absl::StrCat(plugin.name, ": ", note));
    }
  }
  enumeration.devices.push_back({kBuiltIns[0].name, ""});
  enumeration.devices.insert(enumeration.devices.end(), slower.begin(), slower.end());
  enumeration.devices.push_back({kBuiltIns[1].name, ""});
  return enumeration;
}

absl::StatusOr<std::unique_ptr<Backend>> CreateBest(const DeviceEnumeration& enumeration,
                                                    const BackendFactory& create) {
  for (const DeviceEnumeration::Device& candidate : enumeration.devices) {
    absl::StatusOr<std::unique_ptr<Backend>> backend = create(candidate.name);
    if (!absl::IsUnavailable(backend.status())) return backend;
  }
  return absl::UnavailableError("no device works here");
}

absl::StatusOr<std::unique_ptr<Backend>> CreateBackend(std::string_view device,
                                                       const BackendOptions& options) {
  if (device != "auto") return CreateKnown(device, options);
  return CreateBest(EnumerateDevices(),
                    [&](const std::string& name) { return CreateKnown(name, options); });
}

}  // namespace upscaled
