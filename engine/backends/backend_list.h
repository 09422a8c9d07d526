// The backends that this build knows, best first.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/backends/backend.h"

namespace upscaled {

// Device specs that CreateBackend takes, best first: "cpu", "reference".
std::vector<std::string> ListDevices();

// `device` is one of ListDevices(), or "auto" for the first that works here. NOT_FOUND lists what
// there is; INVALID_ARGUMENT names an option that the device cannot honour.
absl::StatusOr<std::unique_ptr<Backend>> CreateBackend(std::string_view device,
                                                       const BackendOptions& options);

}  // namespace upscaled
