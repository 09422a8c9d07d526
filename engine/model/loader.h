// From a file to a network, whatever its format.
#pragma once

#include <filesystem>

#include "absl/status/statusor.h"
#include "engine/model/network.h"

namespace upscaled {

// Looks at the file to find its format (ncnn: the .param, whose .bin lies beside it), loads and
// validates it. Scale and border come from the layers. Every error names the file; UNIMPLEMENTED
// is a file of a known format whose network has operations that we do not have, or an unknown
// format.
absl::StatusOr<Network> LoadNetworkFile(const std::filesystem::path& path);

}  // namespace upscaled
