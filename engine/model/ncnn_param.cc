#include "engine/model/ncnn_param.h"

#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "engine/model/limits.h"

namespace upscaled {
namespace {

constexpr int kArrayIdBase = -23300;
constexpr int kMaxParamId = 31;
constexpr int kMaxBlobsPerLayer = 64;

using Words = std::vector<absl::string_view>;

absl::StatusOr<double> ParseNumber(absl::string_view text) {
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || !(std::abs(value) <= std::numeric_limits<float>::max())) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not a number"));
  }
  return value;
}

absl::StatusOr<int> ParseCount(absl::string_view text, int min, int max) {
  int value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < min || value > max) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is not a count of ", min, "..", max));
  }
  return value;
}

// "type name input_count output_count inputs... outputs... id=value..."
absl::StatusOr<NcnnLayer> ParseLayer(const Words& fields) {
  if (fields.size() < 4) {
    return absl::InvalidArgumentError("a layer needs a type, a name and two counts");
  }
  NcnnLayer layer;
  layer.type = std::string(fields[0]);
  layer.name = std::string(fields[1]);
  ASSIGN_OR_RETURN(const int inputs, ParseCount(fields[2], 0, kMaxBlobsPerLayer));
  ASSIGN_OR_RETURN(const int outputs, ParseCount(fields[3], 0, kMaxBlobsPerLayer));
  const size_t first_param = 4 + static_cast<size_t>(inputs) + outputs;
  if (fields.size() < first_param) {
    return absl::InvalidArgumentError(
        absl::StrCat("layer '", layer.name, "' names fewer than its ", inputs + outputs, " blobs"));
  }
  const auto blobs = fields.begin() + 4;
  for (int i = 0; i < inputs + outputs; ++i) {
    (i < inputs ? layer.inputs : layer.outputs).emplace_back(blobs[i]);
  }
  for (size_t i = first_param; i < fields.size(); ++i) {
    RETURN_IF_ERROR(layer.params.Parse({fields[i].data(), fields[i].size()}));
  }
  return layer;
}

absl::Status AtLine(size_t line, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("line ", line, ": ", status.message()));
}

}  // namespace

absl::Status NcnnParams::Parse(std::string_view field) {
  const size_t equals = field.find('=');
  int id = 0;
  if (equals == field.npos || !absl::SimpleAtoi(ToAbsl(field.substr(0, equals)), &id)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", ToAbsl(field), "' is not a parameter 'id=value'"));
  }
  const bool array = id <= kArrayIdBase;
  if (array) id = kArrayIdBase - id;
  if (id < 0 || id > kMaxParamId) {
    return absl::InvalidArgumentError(
        absl::StrCat("parameter id ", id, " is outside 0..", kMaxParamId));
  }
  std::vector<double> values;
  for (const absl::string_view text : absl::StrSplit(ToAbsl(field.substr(equals + 1)), ',')) {
    ASSIGN_OR_RETURN(const double value, ParseNumber(text));
    values.push_back(value);
  }
  if (array) {
    if (values[0] != static_cast<double>(values.size() - 1)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "array parameter ", id, " announces ", values[0], " values and has ", values.size() - 1));
    }
    values.erase(values.begin());
    arrays_.insert(id);
  } else if (values.size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("parameter ", id, " has several values"));
  }
  if (!values_.emplace(id, std::move(values)).second) {
    return absl::InvalidArgumentError(absl::StrCat("parameter ", id, " is given twice"));
  }
  return absl::OkStatus();
}

absl::StatusOr<float> NcnnParams::Float(int id, float missing) {
  const auto it = values_.find(id);
  if (it == values_.end()) return missing;
  read_.insert(id);
  if (arrays_.count(id) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("parameter ", id, " is an array"));
  }
  return static_cast<float>(it->second[0]);
}

absl::StatusOr<int> NcnnParams::Int(int id, int missing) {
  RETURN_IF_ERROR(Float(id, 0).status());
  const auto it = values_.find(id);
  if (it == values_.end()) return missing;
  const double value = it->second[0];
  if (value != std::floor(value) || std::abs(value) > std::numeric_limits<int>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("parameter ", id, " is ", value, ", must be an integer"));
  }
  return static_cast<int>(value);
}

absl::StatusOr<std::vector<float>> NcnnParams::Array(int id) {
  const auto it = values_.find(id);
  if (it == values_.end()) return std::vector<float>();
  read_.insert(id);
  if (arrays_.count(id) == 0) {
    return absl::InvalidArgumentError(absl::StrCat("parameter ", id, " must be an array"));
  }
  return std::vector<float>(it->second.begin(), it->second.end());
}

absl::Status NcnnParams::Expect(int id, const char* meaning, int value) {
  ASSIGN_OR_RETURN(const float given, Float(id, static_cast<float>(value)));
  if (given == static_cast<float>(value)) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat(meaning, " ", given, " (parameter ", id, ") is not supported, only ", value));
}

absl::Status NcnnParams::CheckAllRead() const {
  for (const auto& [id, values] : values_) {
    if (read_.count(id) == 0) {
      return absl::UnimplementedError(absl::StrCat("parameter ", id, " is not supported"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<NcnnLayer>> ParseNcnnParam(std::string_view text) {
  std::vector<NcnnLayer> layers;
  int layer_count = 0;
  size_t line_number = 0, content_lines = 0;
  for (const absl::string_view line : absl::StrSplit(ToAbsl(text), '\n')) {
    ++line_number;
    const Words fields = absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (fields.empty()) continue;
    ++content_lines;
    if (content_lines == 1) {
      if (fields.size() != 1 || fields[0] != ToAbsl(kNcnnMagic)) {
        return AtLine(line_number, absl::InvalidArgumentError(absl::StrCat(
                                       "not an ncnn .param file: must be ", ToAbsl(kNcnnMagic))));
      }
    } else if (content_lines == 2) {
      const absl::StatusOr<int> count = ParseCount(fields[0], 1, kMaxLayers);
      if (!count.ok()) return AtLine(line_number, count.status());
      layer_count = *count;
    } else {
      absl::StatusOr<NcnnLayer> layer = ParseLayer(fields);
      if (!layer.ok()) return AtLine(line_number, layer.status());
      layers.push_back(*std::move(layer));
    }
  }
  if (content_lines == 0) return absl::InvalidArgumentError("the .param file is empty");
  if (layers.empty() || static_cast<int>(layers.size()) != layer_count) {
    return absl::InvalidArgumentError(
        absl::StrCat("file announces ", layer_count, " layers and has ", layers.size()));
  }
  return layers;
}

}  // namespace upscaled
