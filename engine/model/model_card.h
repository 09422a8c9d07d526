// The model.json beside a model's weights. Schema: README.md of this folder.
#pragma once

#include <filesystem>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/model/repository.h"

namespace upscaled {

inline constexpr std::string_view kModelCardName = "model.json";

// The card of the model in `folder`, whose name it must carry. Only its text is looked at, not
// whether the weights exist. INVALID_ARGUMENT names the field and what is wrong.
absl::StatusOr<ModelCard> ParseModelCard(std::string_view json,
                                         const std::filesystem::path& folder);

}  // namespace upscaled
