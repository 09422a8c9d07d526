#include "engine/model/aliases.h"

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/unique_json.h"
#include "engine/model/json_shape.h"
#include "engine/model/quote.h"
#include "engine/model/text.h"
#include "nlohmann/json.hpp"

namespace upscaled {

absl::StatusOr<AliasMap> ParseAliases(std::string_view json) {
  RETURN_IF_ERROR(CheckJsonShape(json));
  const auto [document, repeated] = ParseUniqueJson(json);
  if (!document.is_object()) {
    return absl::InvalidArgumentError("is no JSON object of aliases and their models");
  }
  if (repeated) {
    return absl::InvalidArgumentError(absl::StrCat("has the alias ", Quote(*repeated), " twice"));
  }
  AliasMap aliases;
  for (const auto& [alias, model] : document.items()) {
    if (alias.empty() || !IsText(alias)) {
      return absl::InvalidArgumentError(
          absl::StrCat("has the alias ", Quote(alias), ", which is empty or no text"));
    }
    if (!model.is_string()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the alias ", Quote(alias), " must stand for the name of a model"));
    }
    aliases[alias] = model.get<std::string>();
  }
  return aliases;
}

}  // namespace upscaled
