#include "engine/backends/backend_list.h"
#include "tests/engine/backends/tested_devices.h"

namespace upscaled::test {

// As deep networks run on the CPU.
constexpr char kStagedCpu[] = "cpu_in_stages";

std::vector<std::string> TestedDevices() { return {"cpu", kStagedCpu, "reference"}; }

bool DevicesAreEmulated() { return false; }

absl::StatusOr<std::unique_ptr<Backend>> CreateTestedBackend(const std::string& device,
                                                             BackendOptions options) {
  options.always_stages = device == kStagedCpu;
  options.poisons_memory = true;
  absl::StatusOr<std::unique_ptr<Backend>> backend =
      CreateBackend(options.always_stages ? "cpu" : device, options);
  // These are part of every program: nothing to skip.
  if (absl::IsUnavailable(backend.status())) return absl::InternalError(backend.status().message());
  return backend;
}

}  // namespace upscaled::test
