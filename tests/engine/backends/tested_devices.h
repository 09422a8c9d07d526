// The devices of this executable's tests. The same tests are linked to one list or another, so
// devices a machine may lack have tests of their own, and these say so and skip.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/backends/backend.h"

namespace upscaled::test {

// As CreateBackend takes them; names of tests, too.
std::vector<std::string> TestedDevices();

// Whether plain code plays the device's part: then few random networks have to do.
bool DevicesAreEmulated();

// UNAVAILABLE where the machine has no such device: the test should skip itself.
absl::StatusOr<std::unique_ptr<Backend>> CreateTestedBackend(const std::string& device,
                                                             BackendOptions options = {});

}  // namespace upscaled::test
