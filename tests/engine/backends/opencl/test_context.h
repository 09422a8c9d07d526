// The device of the OpenCL tests.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/backends/opencl/context.h"

namespace upscaled::test {

// The first OpenCL device, with the test programs' cache. UNAVAILABLE: the test should skip itself.
absl::StatusOr<std::shared_ptr<opencl::Context>> MakeContext();

}  // namespace upscaled::test
