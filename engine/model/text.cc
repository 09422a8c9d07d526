#include "engine/model/text.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "nlohmann/json.hpp"

namespace upscaled {

bool IsText(const std::string& text) {
  if (std::any_of(text.begin(), text.end(), [](char c) { return absl::ascii_iscntrl(c); })) {
    return false;
  }
  try {
    nlohmann::json(text).dump();  // throws at what is no UTF-8
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

std::string AsText(const std::string& text) { return IsText(text) ? text : absl::CHexEscape(text); }

}  // namespace upscaled
