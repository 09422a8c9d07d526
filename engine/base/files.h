// Whole files and folders.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace upscaled {

struct ReadFileOptions {
  bool pipes = false;  // reads pipes and devices, too: waits for their writers
};

// NOT_FOUND if `path` does not exist or is not a regular file, RESOURCE_EXHAUSTED above
// `max_bytes`; both name the file.
absl::StatusOr<std::string> ReadFile(const std::filesystem::path& path, size_t max_bytes,
                                     const ReadFileOptions& options = {});

struct ReplaceFileOptions {
  mode_t mode = 0600;
  // Else the file may be cut short, or be the old one, after a power failure.
  bool sync = false;
};

// Writes the parts, one after the other, to a file next to `path` and renames it. Readers see the
// whole old file or the whole new one. UNAVAILABLE names the file; nothing is left behind then.
absl::Status ReplaceFile(const std::filesystem::path& path,
                         std::initializer_list<std::string_view> parts,
                         const ReplaceFileOptions& options = {});

// Differs whenever the file was rewritten or replaced since: inode, size and time of change.
// NOT_FOUND if there is no file.
absl::StatusOr<std::string> FileState(const std::filesystem::path& path);

// The entries of a folder, sorted. NOT_FOUND when it cannot be read.
absl::StatusOr<std::vector<std::filesystem::path>> ListFolder(const std::filesystem::path& folder);

}  // namespace upscaled
