// Whole files (weights, cards) and folders.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace upscaled {

// NOT_FOUND when there is none, RESOURCE_EXHAUSTED above `max_bytes`; both name the file.
absl::StatusOr<std::string> ReadFile(const std::filesystem::path& path, size_t max_bytes);

// Differs whenever the file was rewritten or replaced since: inode, size and time of change.
// NOT_FOUND when there is none.
absl::StatusOr<std::string> FileState(const std::filesystem::path& path);

// What lies in a folder, sorted. NOT_FOUND when it cannot be read.
absl::StatusOr<std::vector<std::filesystem::path>> ListFolder(const std::filesystem::path& folder);

}  // namespace upscaled
