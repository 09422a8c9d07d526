// Facts of this machine that settings and their defaults depend on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace upscaled::server {

// Memory that this process may use: the machine's, or the minimum of the limits of the
// control groups that it lies in (a container's, systemd's MemoryMax=) when that is less.
int64_t UsableMemoryBytes();

// False, too, where it cannot be told.
bool IsDirectory(const std::filesystem::path& path);

// The models that came with the program: of an installed tree (../share/upscaled/models from the
// program), else of the source tree that it was built from.
std::optional<std::filesystem::path> BundledModelsDirectory();

}  // namespace upscaled::server
