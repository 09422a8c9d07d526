#include "engine/backends/backend_list.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/backends/cpu/cpu_backend.h"
#include "engine/backends/reference/reference_backend.h"
#include "engine/base/string_view.h"

namespace upscaled {
namespace {

struct Device {
  const char* name;
  absl::StatusOr<std::unique_ptr<Backend>> (*create)(const BackendOptions& options);
};

// Best first.
constexpr Device kDevices[] = {
    {"cpu", CreateCpuBackend},
    {"reference", CreateReferenceBackend},
};

}  // namespace

std::vector<std::string> ListDevices() {
  std::vector<std::string> names;
  for (const Device& device : kDevices) names.emplace_back(device.name);
  return names;
}

absl::StatusOr<std::unique_ptr<Backend>> CreateBackend(std::string_view device,
                                                       const BackendOptions& options) {
  for (const Device& known : kDevices) {
    if (device != "auto" && device != known.name) continue;
    absl::StatusOr<std::unique_ptr<Backend>> backend = known.create(options);
    const bool try_next = device == "auto" && absl::IsUnavailable(backend.status());
    if (!try_next) return backend;
  }
  return absl::NotFoundError(absl::StrCat("no device '", ToAbsl(device), "', there are: auto, ",
                                          absl::StrJoin(ListDevices(), ", ")));
}

}  // namespace upscaled
