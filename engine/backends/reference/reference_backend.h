// The oracle: plain C++ in fp32 with double sums, for tests and for doubts. Slow.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/backends/backend.h"

namespace upscaled {

// Runs every operation, in Precision::kExact. Takes only `threads` of the options; INVALID_ARGUMENT
// names another that is set.
absl::StatusOr<std::unique_ptr<Backend>> CreateReferenceBackend(const BackendOptions& options);

}  // namespace upscaled
