// Our own convolution kernels on the CPU, one thread a stream.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/backends/backend.h"

namespace upscaled {

// INVALID_ARGUMENT when options.cpu_isa is not one that this machine runs or options.kernel is not
// in the kernel list (the message lists what there is), or threads is negative; UNIMPLEMENTED when
// this build lacks the kernel.
absl::StatusOr<std::unique_ptr<Backend>> CreateCpuBackend(const BackendOptions& options);

}  // namespace upscaled
