// Files without a name in any folder, gone with their descriptors.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "engine/base/unique_fd.h"

namespace upscaled {

// For reading and writing, empty, readable only by its user. If a file system knows no files
// without names (NFS, old overlays), the file has one until this returns. An error has open(2)'s
// code and words, and the caller names the folder.
absl::StatusOr<UniqueFd> OpenUnnamedFile(const std::string& folder);

}  // namespace upscaled
