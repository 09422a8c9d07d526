// Whole small files (weights, cards) and folders.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace upscaled {

// NOT_FOUND when there is none, RESOURCE_EXHAUSTED above `max_bytes`; both name the file.
absl::StatusOr<std::string> ReadFile(const std::filesystem::path& path, size_t max_bytes);

// What lies in a folder, sorted. NOT_FOUND when it cannot be read.
absl::StatusOr<std::vector<std::filesystem::path>> ListFolder(const std::filesystem::path& folder);

}  // namespace upscaled
