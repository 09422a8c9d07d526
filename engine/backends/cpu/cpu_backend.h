// Our own convolution kernels on the CPU, one thread per stream.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/backends/backend.h"

namespace upscaled {

// INVALID_ARGUMENT if this machine does not run options.cpu_isa, options.kernel is not in the
// kernel list (the message gives the known ones), or threads is negative; UNIMPLEMENTED if this
// build lacks the kernel.
absl::StatusOr<std::unique_ptr<Backend>> CreateCpuBackend(const BackendOptions& options);

}  // namespace upscaled
