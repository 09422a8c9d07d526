#include "engine/model/model_card.h"

#include <algorithm>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/files.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "engine/base/unique_json.h"
#include "engine/model/architectures/architecture.h"
#include "engine/model/json_shape.h"
#include "engine/model/limits.h"
#include "engine/model/loader.h"
#include "engine/model/of_file.h"
#include "engine/model/text.h"
#include "nlohmann/json.hpp"

namespace upscaled {
namespace {

using Json = nlohmann::json;
using std::filesystem::path;

constexpr int kMaxNoiseLevel = 3;

// `format` of a card, and the key in its `files` of the loader's file.
struct CardFormat {
  const char* name;
  const char* main_file;
  bool has_bin;       // weights in a second file
  bool weights_only;  // says nothing of the layers: the card may
};

constexpr CardFormat kCardFormats[] = {{"ncnn", "param", true, false},
                                       {"waifu2x-json", "json", false, false},
                                       {"onnx", "onnx", false, false},
                                       {"safetensors", "safetensors", false, true},
                                       {"pth", "pth", false, true}};

absl::StatusOr<CardFormat> FindFormat(const std::string& name) {
  for (const CardFormat& format : kCardFormats) {
    if (name == format.name) return format;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'format' is '", name, "', must be one of ",
      absl::StrJoin(kCardFormats, ", ", [](std::string* out, const CardFormat& format) {
        absl::StrAppend(out, "'", format.name, "'");
      })));
}

constexpr size_t kMaxCardBytes = size_t{64} << 10;

// A value for messages: a card is no place to fill our logs from.
std::string Shorten(const Json& value) {
  constexpr size_t kMaxChars = 60;
  std::string text = value.dump(/*indent=*/-1, ' ', /*ensure_ascii=*/true);
  if (text.size() > kMaxChars) text.replace(kMaxChars, std::string::npos, "...");
  return text;
}

// An object; each of its fields must be asked for: a misspelt one is an error, not a default.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  const Json* Find(const char* key) {
    asked_.emplace_back(key);
    const auto it = object_.find(key);
    return it == object_.end() ? nullptr : &*it;
  }

  // `missing` null: the field must be there.
  absl::StatusOr<std::string> String(const char* key, const char* missing) {
    const Json* field = Find(key);
    if (field == nullptr && missing != nullptr) return missing;
    if (field == nullptr || !field->is_string()) {
      return absl::InvalidArgumentError(absl::StrCat("needs a string '", key, "'"));
    }
    return field->get<std::string>();
  }

  absl::StatusOr<int> Int(const char* key, int missing, int min, int max) {
    const Json* field = Find(key);
    return field == nullptr ? missing : ToInt(*field, key, min, max);
  }

  static absl::StatusOr<int> ToInt(const Json& value, const char* key, int min, int max) {
    // As double: an integer may lie beyond int64_t.
    if (!value.is_number_integer() || value.get<double>() < min || value.get<double>() > max) {
      return absl::InvalidArgumentError(absl::StrCat("'", key, "' is ", Shorten(value),
                                                     ", must be an integer in ", min, "..", max));
    }
    return value.get<int>();
  }

  absl::Status CheckAllAsked() const {
    for (const auto& [key, value] : object_.items()) {
      if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "has an unknown field '", key, "'; known are ", absl::StrJoin(asked_, ", ")));
      }
    }
    return absl::OkStatus();
  }

 private:
  const Json& object_;
  std::vector<std::string> asked_;
};

// A file next to the card; its name must not lead elsewhere.
absl::StatusOr<path> FileBeside(const path& folder, const std::string& name) {
  const path file(name);
  if (name.empty() || file != file.filename() || name == "." || name == "..") {
    return absl::InvalidArgumentError(
        absl::StrCat("file '", name, "' must be a plain file name in the model's folder"));
  }
  return folder / file;
}

// The loader finds an ncnn model's .bin by the name of its .param.
absl::StatusOr<path> ParseFiles(const Json* object, const CardFormat& format, const path& folder) {
  if (object == nullptr || !object->is_object()) {
    return absl::InvalidArgumentError("needs an object 'files'");
  }
  Fields fields(*object);
  ASSIGN_OR_RETURN(const std::string main_name, fields.String(format.main_file, nullptr));
  ASSIGN_OR_RETURN(const path weights, FileBeside(folder, main_name));
  if (format.has_bin) {
    ASSIGN_OR_RETURN(const std::string bin, fields.String("bin", nullptr));
    const std::string expected = path(main_name).replace_extension(".bin").string();
    if (bin != expected) {
      return absl::InvalidArgumentError(absl::StrCat("'bin' is '", bin, "', beside '", main_name,
                                                     "' it must be '", expected, "'"));
    }
  }
  RETURN_IF_ERROR(fields.CheckAllAsked());
  return weights;
}

// `scale`, `noise_levels` and `files` of the card itself, for a model of one network.
absl::Status ParseOnlyVariant(Fields& fields, const CardFormat& format, const path& folder,
                              ModelCard& card) {
  ASSIGN_OR_RETURN(const int scale, fields.Int("scale", 0, 1, kMaxScale));
  if (scale == 0) return absl::InvalidArgumentError("needs a number 'scale'");
  ASSIGN_OR_RETURN(const path weights, ParseFiles(fields.Find("files"), format, folder));
  const Json* levels = fields.Find("noise_levels");
  if (levels == nullptr) {
    card.variants.push_back({.scale = scale, .weights = weights});
    return absl::OkStatus();
  }
  if (!levels->is_array() || levels->size() != 1) {
    return absl::InvalidArgumentError(
        "'noise_levels' must be an array of one level; several networks are 'variants'");
  }
  ASSIGN_OR_RETURN(const int level,
                   Fields::ToInt((*levels)[0], "noise_levels", kNoDenoise, kMaxNoiseLevel));
  card.variants.push_back({.scale = scale, .noise_level = level, .weights = weights});
  return absl::OkStatus();
}

absl::Status ParseVariants(const Json& array, const CardFormat& format, const path& folder,
                           ModelCard& card) {
  if (!array.is_array() || array.empty()) {
    return absl::InvalidArgumentError("'variants' must be an array of at least one object");
  }
  for (const Json& element : array) {
    if (!element.is_object()) {
      return absl::InvalidArgumentError("'variants' must be an array of objects");
    }
    Fields fields(element);
    ModelVariant variant;
    ASSIGN_OR_RETURN(variant.scale, fields.Int("scale", 2, 1, kMaxScale));
    ASSIGN_OR_RETURN(variant.noise_level,
                     fields.Int("noise_level", kNoDenoise, kNoDenoise, kMaxNoiseLevel));
    ASSIGN_OR_RETURN(variant.weights, ParseFiles(fields.Find("files"), format, folder));
    RETURN_IF_ERROR(fields.CheckAllAsked());
    if (card.Find(variant.scale, variant.noise_level) != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "has scale ", variant.scale, " with noise level ", variant.noise_level, " twice"));
    }
    card.variants.push_back(std::move(variant));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Precision>> ParsePrecisions(const Json* array) {
  if (array == nullptr) return std::vector<Precision>{Precision::kExact};
  std::vector<Precision> precisions;
  for (const Precision precision : {Precision::kExact, Precision::kFast}) {
    const auto named = [&](const Json& v) { return v == PrecisionName(precision); };
    if (array->is_array() && std::any_of(array->begin(), array->end(), named)) {
      precisions.push_back(precision);
    }
  }
  if (precisions.empty() || precisions.size() != array->size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'precisions' is ", Shorten(*array), ", must list 'exact', 'fast' or both"));
  }
  return precisions;
}

absl::StatusOr<std::vector<std::string>> ParseAliasNames(const Json* array) {
  std::vector<std::string> aliases;
  if (array == nullptr) return aliases;
  for (const Json& alias : *array) {
    if (!array->is_array() || !alias.is_string() || !IsText(aliases.emplace_back(alias)) ||
        aliases.back().empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("'aliases' is ", Shorten(*array), ", must be an array of names"));
    }
  }
  return aliases;
}

// The folder's number is a version's.
absl::Status ParseVersion(Fields& fields, std::optional<int> of_folder, ModelCard& card) {
  ASSIGN_OR_RETURN(card.version, fields.Int("version", of_folder.value_or(1), 1, kMaxVersion));
  if (of_folder.value_or(card.version) == card.version) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'version' is ", card.version, ", must be that of its folder, ", *of_folder));
}

absl::Status ParseName(Fields& fields, const path& folder, ModelCard& card) {
  ASSIGN_OR_RETURN(card.name, fields.String("name", nullptr));
  if (card.name == folder.filename()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("'name' is '", card.name,
                                                 "', must be that of its folder '",
                                                 folder.filename().string(), "'"));
}

// The fields not needed to run it.
absl::Status ParseDescription(Fields& fields, ModelCard& card) {
  ASSIGN_OR_RETURN(card.style, fields.String("style", "general"));
  ASSIGN_OR_RETURN(card.licence, fields.String("licence", ""));
  ASSIGN_OR_RETURN(card.description, fields.String("description", ""));
  ASSIGN_OR_RETURN(card.precisions, ParsePrecisions(fields.Find("precisions")));
  ASSIGN_OR_RETURN(card.aliases, ParseAliasNames(fields.Find("aliases")));
  return absl::OkStatus();
}

absl::Status ParseBorder(Fields& fields, ModelCard& card) {
  ASSIGN_OR_RETURN(card.pad_px, fields.Int("pad_px", 0, 0, kMaxPadPx));
  ASSIGN_OR_RETURN(card.align_px, fields.Int("align_px", 1, 1, kMaxPeriodPx));
  ASSIGN_OR_RETURN(const std::string border, fields.String("border", "replicate"));
  if (border == "replicate") return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'border' is '", border, "', must be 'replicate'"));
}

// `format` is of self-describing files, or null. Empty: as the tensors look.
absl::StatusOr<std::string> ParseArchitecture(Fields& fields, const char* format) {
  ASSIGN_OR_RETURN(const std::string architecture, fields.String("architecture", ""));
  if (architecture.empty()) return architecture;
  if (format != nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("'architecture' is '", architecture,
                                                   "', but files of format '", format,
                                                   "' say themselves what they are"));
  }
  RETURN_IF_ERROR(CheckArchitecture(architecture));
  return architecture;
}

absl::StatusOr<int> ParseCells(Fields& fields) {
  return fields.Int("cell_px", kDefaultCellPx, kMinCellPx, kMaxCellPx);
}

absl::StatusOr<Json> ParseObject(std::string_view json) {
  RETURN_IF_ERROR(CheckJsonShape(json));
  UniqueJson parsed = ParseUniqueJson(json);
  if (!parsed.document.is_object()) return absl::InvalidArgumentError("is no JSON object");
  if (parsed.repeated_key.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("has ", Quote(*parsed.repeated_key), " twice"));
  }
  return std::move(parsed.document);
}

absl::StatusOr<BareModelCard> ParseCardBeside(std::string_view json, const path& model) {
  ASSIGN_OR_RETURN(const Json document, ParseObject(json));
  Fields fields(document);
  BareModelCard beside;
  RETURN_IF_ERROR(ParseDescription(fields, beside.card));
  RETURN_IF_ERROR(ParseVersion(fields, std::nullopt, beside.card));
  ASSIGN_OR_RETURN(beside.card.family, fields.String("family", ""));
  const std::string extension = ExtensionOf(model);
  const char* const format = extension == ".onnx"    ? "onnx"
                             : extension == ".param" ? "ncnn"
                             : extension == ".json"  ? "waifu2x-json"
                                                     : nullptr;
  ASSIGN_OR_RETURN(beside.architecture, ParseArchitecture(fields, format));
  ASSIGN_OR_RETURN(beside.cell_px, ParseCells(fields));
  RETURN_IF_ERROR(fields.CheckAllAsked());
  return beside;
}

}  // namespace

absl::StatusOr<ModelCard> ParseModelCard(std::string_view json, const path& folder,
                                         std::optional<int> version) {
  ASSIGN_OR_RETURN(const Json document, ParseObject(json));
  Fields fields(document);
  ModelCard card;
  RETURN_IF_ERROR(ParseName(fields, version ? folder.parent_path() : folder, card));
  ASSIGN_OR_RETURN(card.family, fields.String("family", nullptr));
  RETURN_IF_ERROR(ParseDescription(fields, card));
  RETURN_IF_ERROR(ParseVersion(fields, version, card));
  RETURN_IF_ERROR(ParseBorder(fields, card));
  ASSIGN_OR_RETURN(const std::string format_name, fields.String("format", kCardFormats[0].name));
  ASSIGN_OR_RETURN(const CardFormat format, FindFormat(format_name));
  const Json* variants = fields.Find("variants");
  RETURN_IF_ERROR(variants == nullptr ? ParseOnlyVariant(fields, format, folder, card)
                                      : ParseVariants(*variants, format, folder, card));
  ASSIGN_OR_RETURN(const std::string architecture,
                   ParseArchitecture(fields, format.weights_only ? nullptr : format.name));
  ASSIGN_OR_RETURN(const int cell_px, ParseCells(fields));
  for (ModelVariant& variant : card.variants) {
    variant.architecture = architecture;
    variant.cell_px = cell_px;
  }
  RETURN_IF_ERROR(fields.CheckAllAsked());
  return card;
}

absl::StatusOr<ModelCard> ReadModelCard(const path& folder, std::optional<int> version) {
  const path file = folder / std::string(kModelCardName);
  ASSIGN_OR_RETURN(const std::string json, ReadFile(file, kMaxCardBytes));
  return OfFile(file, ParseModelCard(json, folder, version));
}

path CardBeside(path model) {
  return model.replace_extension(absl::StrCat(".", ToAbsl(kModelCardName)));
}

absl::StatusOr<BareModelCard> ReadCardBeside(const path& model) {
  const path file = CardBeside(model);
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return ParseCardBeside("{}", model);
  ASSIGN_OR_RETURN(const std::string json, ReadFile(file, kMaxCardBytes));
  return OfFile(file, ParseCardBeside(json, model));
}

}  // namespace upscaled
