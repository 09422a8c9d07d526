#include "engine/train/recipe.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/files.h"
#include "engine/base/status_macros.h"
#include "engine/base/unique_json.h"
#include "engine/model/json_shape.h"
#include "nlohmann/json.hpp"

namespace upscaled::train {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxRecipeBytes = 64 << 10;
constexpr char kReductionsKey[] = "reductions", kColoursKey[] = "exchange_colours";

struct DegradationKey {
  const char* name;
  Degradation Recipe::*member;
  const char* range;  // its key; null: there is none
  double min, max;
};
constexpr DegradationKey kDegradations[] = {
    {"blur", &Recipe::blur, "sigma_px", 0.05, kMaxBlurSigmaPx},
    {"noise", &Recipe::noise, "sigma", 0.05, 64},
    {"chroma_subsampling", &Recipe::chroma_subsampling, nullptr, 0, 0},
    {"jpeg", &Recipe::jpeg, "quality", 1, 100}};

void AppendName(std::string* out, Reduction reduction) { out->append(ReductionName(reduction)); }

absl::Status Bad(const std::string& key, const Json& value, const std::string& wanted) {
  constexpr size_t kMaxChars = 60;
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true);
  if (text.size() > kMaxChars) text.replace(kMaxChars, std::string::npos, "...");
  return absl::InvalidArgumentError(absl::StrCat("'", key, "' is ", text, ", must be ", wanted));
}

absl::Status CheckKeys(const std::string& where, const Json& object,
                       const std::vector<std::string>& known) {
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    return absl::InvalidArgumentError(absl::StrCat(where, "has an unknown key '", key,
                                                   "'; known are ", absl::StrJoin(known, ", ")));
  }
  return absl::OkStatus();
}

absl::Status ParseReductions(const Json& json, std::vector<Reduction>& reductions) {
  std::vector<Reduction> listed;
  for (const Reduction reduction : kReductions) {
    const auto is_it = [&](const Json& name) { return name == ReductionName(reduction); };
    if (json.is_array() && std::count_if(json.begin(), json.end(), is_it) == 1) {
      listed.push_back(reduction);
    }
  }
  if (listed.empty() || listed.size() != json.size()) {
    return Bad(kReductionsKey, json,
               absl::StrCat("a list of ", absl::StrJoin(kReductions, ", ", AppendName),
                            ", each at most once"));
  }
  reductions = std::move(listed);
  return absl::OkStatus();
}

absl::Status ParseDegradation(const DegradationKey& key, const Json& json, Degradation& parsed) {
  const std::string name = key.name;
  if (!json.is_object()) return Bad(name, json, "an object");
  std::vector<std::string> known = {"share"};
  if (key.range != nullptr) known.push_back(key.range);
  RETURN_IF_ERROR(CheckKeys(absl::StrCat("'", name, "' "), json, known));
  const auto is_in = [](const Json& number, double min, double max) {
    return number.is_number() && number.get<double>() >= min && number.get<double>() <= max;
  };
  const Json share = json.value("share", Json());
  if (!is_in(share, 0, 1)) return Bad(absl::StrCat(name, ".share"), share, "a number in 0..1");
  parsed.share = share;
  if (key.range == nullptr) return absl::OkStatus();
  const Json range = json.value(key.range, Json());
  if (!range.is_array() || range.size() != 2 || !is_in(range[0], key.min, key.max) ||
      !is_in(range[1], key.min, key.max) || range[0].get<double>() > range[1].get<double>()) {
    return Bad(absl::StrCat(name, ".", key.range), range,
               absl::StrCat("two numbers in ", key.min, "..", key.max, ", the lesser one first"));
  }
  parsed.min = range[0];
  parsed.max = range[1];
  return absl::OkStatus();
}

absl::StatusOr<Recipe> Parse(const std::string& text) {
  RETURN_IF_ERROR(CheckJsonShape(text));
  const auto [json, repeated] = ParseUniqueJson(text);
  if (!json.is_object()) return absl::InvalidArgumentError("is no JSON object");
  if (repeated) {
    return absl::InvalidArgumentError(absl::StrCat("has the key '", *repeated, "' twice"));
  }
  std::vector<std::string> known = {kReductionsKey, kColoursKey};
  for (const DegradationKey& key : kDegradations) known.push_back(key.name);
  RETURN_IF_ERROR(CheckKeys("", json, known));
  Recipe recipe;
  if (json.contains(kReductionsKey)) {
    RETURN_IF_ERROR(ParseReductions(json[kReductionsKey], recipe.reductions));
  }
  if (json.contains(kColoursKey)) {
    const Json& value = json[kColoursKey];
    if (!value.is_boolean()) return Bad(kColoursKey, value, "true or false");
    recipe.exchange_colours = value;
  }
  for (const DegradationKey& key : kDegradations) {
    if (!json.contains(key.name)) continue;
    RETURN_IF_ERROR(ParseDegradation(key, json[key.name], recipe.*key.member));
  }
  return recipe;
}

}  // namespace

absl::StatusOr<Recipe> ReadRecipe(const std::filesystem::path& file) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(file, kMaxRecipeBytes));
  absl::StatusOr<Recipe> recipe = Parse(text);
  if (recipe.ok()) return recipe;
  return absl::Status(recipe.status().code(),
                      absl::StrCat(file.string(), ": ", recipe.status().message()));
}

std::string RecipeText(const Recipe& recipe) {
  nlohmann::ordered_json json = {{kReductionsKey, Json::array()},
                                 {kColoursKey, recipe.exchange_colours}};
  for (const Reduction reduction : recipe.reductions) {
    json[kReductionsKey].push_back(ReductionName(reduction));
  }
  for (const DegradationKey& key : kDegradations) {
    const Degradation& degradation = recipe.*key.member;
    if (degradation.share == 0) continue;
    json[key.name]["share"] = degradation.share;
    if (key.range == nullptr) continue;
    json[key.name][key.range] = {degradation.min, degradation.max};
  }
  return json.dump();
}

}  // namespace upscaled::train
