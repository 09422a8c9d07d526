// Facts of this machine for settings and their defaults.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace upscaled::server {

// Returns the memory this process may use: the machine's, or the lowest limit of its control groups
// if it is less (a container's, systemd's MemoryMax=).
int64_t UsableMemoryBytes();

// False, too, where it cannot be told.
bool IsDirectory(const std::filesystem::path& path);

// The program's own models: of an installed tree (../share/upscaled/models from the program), or of
// the source tree that it was built from.
std::optional<std::filesystem::path> BundledModelsDirectory();

}  // namespace upscaled::server
