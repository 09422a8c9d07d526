#include "tests/bench/markdown.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace upscaled::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kSeconds[] = "seconds";

std::string Cell(const Json& value, double factor = 1) {
  if (value.is_number_integer() && factor == 1) return value.dump();
  if (value.is_number()) return absl::StrFormat("%.4g", value.get<double>() * factor);
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  return absl::StrReplaceAll(text, {{"|", "\\|"}, {"\n", " "}});
}

std::string Heading(const std::string& key) {
  if (!absl::EndsWith(key, kSeconds)) return absl::StrReplaceAll(key, {{"_", " "}});
  const std::string what = absl::StrReplaceAll(absl::StripSuffix(key, kSeconds), {{"_", " "}});
  return absl::StrCat(what, "ms");
}

void AppendHead(const std::vector<std::string>& headings, std::string& table) {
  absl::StrAppend(&table, "|");
  for (const std::string& heading : headings) absl::StrAppend(&table, " ", heading, " |");
  absl::StrAppend(&table, "\n|");
  for (size_t i = 0; i < headings.size(); ++i) absl::StrAppend(&table, "---|");
  absl::StrAppend(&table, "\n");
}

// The values of `key` in all objects with it, each once.
std::vector<std::string> ValuesOf(const Json& list, const std::string& key) {
  std::vector<std::string> values;
  for (const Json& object : list) {
    if (!object.contains(key)) continue;
    const std::string value = Cell(object[key]);
    if (std::ranges::find(values, value) == values.end()) values.push_back(value);
  }
  return values;
}

bool Has(const Json& object, const std::string& key, const std::string& value) {
  return object.contains(key) && Cell(object[key]) == value;
}

}  // namespace

std::string MarkdownTable(const Json& list) {
  std::vector<std::string> keys, headings;
  for (const Json& object : list) {
    for (const auto& [key, value] : object.items()) {
      if (std::ranges::find(keys, key) != keys.end()) continue;
      keys.push_back(key);
      headings.push_back(Heading(key));
    }
  }
  std::string table;
  AppendHead(headings, table);
  for (const Json& object : list) {
    absl::StrAppend(&table, "|");
    for (const std::string& key : keys) {
      const double factor = absl::EndsWith(key, kSeconds) ? 1e3 : 1;
      absl::StrAppend(&table, " ", object.contains(key) ? Cell(object[key], factor) : "", " |");
    }
    absl::StrAppend(&table, "\n");
  }
  return table;
}

std::string MarkdownGrid(const Json& list, const std::string& row_key,
                         const std::string& column_key, const std::string& value_key) {
  const std::vector<std::string> columns = ValuesOf(list, column_key);
  std::vector<std::string> headings = {""};
  headings.insert(headings.end(), columns.begin(), columns.end());
  std::string table;
  AppendHead(headings, table);
  for (const std::string& row : ValuesOf(list, row_key)) {
    absl::StrAppend(&table, "| ", row, " |");
    for (const std::string& column : columns) {
      const auto found = std::ranges::find_if(list, [&](const Json& object) {
        return Has(object, row_key, row) && Has(object, column_key, column);
      });
      const Json object = found == list.end() ? Json::object() : *found;
      const std::string& key = object.contains(value_key) ? value_key : "error";
      absl::StrAppend(&table, " ", object.contains(key) ? Cell(object[key]) : "", " |");
    }
    absl::StrAppend(&table, "\n");
  }
  return table;
}

}  // namespace upscaled::bench
