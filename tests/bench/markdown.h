// The output of `--json` as tables of Markdown.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace upscaled::bench {

// A row for each object of `list`, a column for each key, in the order of their first appearance.
// Seconds are shown in milliseconds, numbers with four digits; missing fields are empty.
std::string MarkdownTable(const nlohmann::ordered_json& list);

// One value of each object: rows and columns by two others of its values, as they first appear. For
// objects without it, `error` is shown.
std::string MarkdownGrid(const nlohmann::ordered_json& list, const std::string& row_key,
                         const std::string& column_key, const std::string& value_key);

}  // namespace upscaled::bench
