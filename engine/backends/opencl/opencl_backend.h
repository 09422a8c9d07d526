// Our own kernels on any device with OpenCL 1.2.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/backends/backend.h"
#include "engine/backends/plugin.h"

namespace upscaled {

// Devices that CreateOpenClBackend takes.
PluginDevices EnumerateOpenClDevices();

// `device` is "opencl:P.D", or "opencl" for the first. Keeps compiled programs in
// options.cache_folder; a folder that cannot be used is told in description(). UNAVAILABLE when
// there is no such device; INVALID_ARGUMENT when options.kernel is not one of this backend's (the
// message lists them) or cpu_isa is set.
absl::StatusOr<std::unique_ptr<Backend>> CreateOpenClBackend(std::string_view device,
                                                             const BackendOptions& options);

}  // namespace upscaled
