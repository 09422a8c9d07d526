#include "engine/backends/cuda/cuda_backend.h"
#include "tests/engine/backends/tested_devices.h"

namespace upscaled::test {

std::vector<std::string> TestedDevices() { return {"cuda"}; }

bool DevicesAreEmulated() { return true; }

absl::StatusOr<std::unique_ptr<Backend>> CreateTestedBackend(const std::string& device,
                                                             BackendOptions options) {
  return CreateCudaBackend(device, options);
}

}  // namespace upscaled::test
