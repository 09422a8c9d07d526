// Whole small files: weights and cards.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "absl/status/statusor.h"

namespace upscaled {

// NOT_FOUND when there is none, RESOURCE_EXHAUSTED above `max_bytes`; both name the file.
absl::StatusOr<std::string> ReadFile(const std::filesystem::path& path, size_t max_bytes);

}  // namespace upscaled
