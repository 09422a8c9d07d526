// Our own kernels on NVIDIA's GPUs.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/backends/backend.h"
#include "engine/backends/plugin.h"

namespace upscaled {

// Devices for CreateCudaBackend.
PluginDevices EnumerateCudaDevices();

// `device` is "cuda:N", or "cuda" for the first. UNAVAILABLE when there is no such device, or when
// this process has lost its context and the driver gives it no other (the message says so);
// INVALID_ARGUMENT when options.kernel is not one of this backend's (the message lists them) or
// cpu_isa is set. options.chooser chooses among kernels for convolutions.
absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(std::string_view device,
                                                           const BackendOptions& options);

}  // namespace upscaled
