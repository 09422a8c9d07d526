// Errors of OpenCL calls as absl::Status.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "engine/backends/opencl/cl.h"

namespace upscaled::opencl {

// OK for CL_SUCCESS. RESOURCE_EXHAUSTED when memory is out, UNAVAILABLE when the device or its
// driver is gone, else INTERNAL; the message names the call and the error.
absl::Status ToStatus(cl_int error, std::string_view call);

}  // namespace upscaled::opencl
