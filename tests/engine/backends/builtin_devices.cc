#include "engine/backends/backend_list.h"
#include "tests/engine/backends/tested_devices.h"

namespace upscaled::test {

std::vector<std::string> TestedDevices() { return {"cpu", "reference"}; }

bool DevicesAreEmulated() { return false; }

absl::StatusOr<std::unique_ptr<Backend>> CreateTestedBackend(const std::string& device,
                                                             BackendOptions options) {
  absl::StatusOr<std::unique_ptr<Backend>> backend = CreateBackend(device, options);
  // These are part of every program: nothing to skip.
  if (absl::IsUnavailable(backend.status())) return absl::InternalError(backend.status().message());
  return backend;
}

}  // namespace upscaled::test
