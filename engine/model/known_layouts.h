// Model folders without a card whose file names say what they hold, as well-known projects publish
// them.
#pragma once

#include <filesystem>
#include <optional>

#include "absl/status/statusor.h"
#include "engine/model/repository.h"

namespace upscaled {

// The card that the folder's file names amount to; nullopt when none of them is known. Known are
// waifu2x's (scale2.0x_model, noise1_scale2.0x_model, noise1_model; .param with .bin, or .json) and
// realcugan's (up2x-conservative, up3x-denoise2x, up2x-no-denoise; .param with .bin).
absl::StatusOr<std::optional<ModelCard>> RecogniseFolder(const std::filesystem::path& folder);

}  // namespace upscaled
