// What the settings' defaults are taken from: this machine, and where the program lies.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace upscaled::server {

// Memory that this process may use: the machine's, or the container's limit when that is less.
int64_t UsableMemoryBytes();

// The models that came with the program: of an installed tree (../share/upscaled/models from the
// program), else of the source tree that it was built from.
std::optional<std::filesystem::path> BundledModelsDirectory();

}  // namespace upscaled::server
