// JSON that others have written.
#pragma once

#include <string>

#include "nlohmann/json.hpp"

namespace upscaled::client {

// Discarded for what is no JSON, or is nested more than 64 deep: copies and dump() recurse.
inline nlohmann::json ParseShallow(const std::string& text) {
  constexpr int kMaxDepth = 64;
  bool deep = false;
  const auto keep = [&deep](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    deep = deep || depth > kMaxDepth;
    return !deep;
  };
  nlohmann::json value = nlohmann::json::parse(text, keep, /*allow_exceptions=*/false);
  if (deep) value = nlohmann::json(nlohmann::json::value_t::discarded);
  return value;
}

}  // namespace upscaled::client
