// JSON that others have written.
#pragma once

#include <string_view>

#include "nlohmann/json.hpp"

namespace upscaled {

// Discarded if the text is no JSON, or nested more than 64 deep: copies and dump() recurse.
template <typename Json = nlohmann::json>
Json ParseShallow(std::string_view text) {
  constexpr int kMaxDepth = 64;
  bool deep = false;
  const auto keep = [&deep](int depth, typename Json::parse_event_t, Json&) {
    deep = deep || depth > kMaxDepth;
    return !deep;
  };
  Json value = Json::parse(text, keep, /*allow_exceptions=*/false);
  if (deep) value = Json(Json::value_t::discarded);
  return value;
}

}  // namespace upscaled
