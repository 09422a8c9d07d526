#include "engine/backends/backend_list.h"
#include "tests/engine/backends/tested_devices.h"

namespace upscaled::test {

std::vector<std::string> TestedDevices() { return {"cuda"}; }

bool DevicesAreEmulated() { return false; }

absl::StatusOr<std::unique_ptr<Backend>> CreateTestedBackend(const std::string& device,
                                                             BackendOptions options) {
  return CreateBackend(device, options);
}

}  // namespace upscaled::test
