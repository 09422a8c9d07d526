// aliases.json of a model repository: other names of models in requests.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace upscaled {

inline constexpr std::string_view kAliasesName = "aliases.json";

// The model of each alias.
using AliasMap = std::map<std::string, std::string, std::less<>>;

// {"default": "general-2x", "art": "4x-drawings"}. INVALID_ARGUMENT names the fault. Does not check
// for the models.
absl::StatusOr<AliasMap> ParseAliases(std::string_view json);

}  // namespace upscaled
