// Objects in JSON that have a key twice, of which a parser keeps one and says nothing.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace upscaled {

// For nlohmann::json::parse to call, with std::ref.
class RepeatedKey {
 public:
  bool operator()(int, nlohmann::json::parse_event_t event, const nlohmann::json& parsed) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start) keys_.emplace_back();
    if (event == Event::object_end) keys_.pop_back();
    if (event == Event::key && !keys_.back().insert(parsed.get<std::string>()).second) {
      found_ = parsed.get<std::string>();
    }
    return true;
  }

  // The last of them.
  const std::optional<std::string>& found() const { return found_; }

 private:
  std::vector<std::set<std::string>> keys_;  // of the objects around the current value
  std::optional<std::string> found_;
};

}  // namespace upscaled
