// Text from a file in messages: cut where it is long, since no file shall fill the logs, and
// escaped where it is no text.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/string_view.h"

namespace upscaled {

// 'name'
inline std::string Quote(std::string_view name) {
  constexpr size_t kMaxChars = 80;
  const std::string shown = absl::CHexEscape(ToAbsl(name.substr(0, kMaxChars)));
  return absl::StrCat("'", shown, name.size() > kMaxChars ? "...'" : "'");
}

// [1, 2, 3]
template <typename Values>
std::string List(const Values& values) {
  constexpr size_t kMaxValues = 8;
  const size_t shown = std::min<size_t>(values.size(), kMaxValues);
  return absl::StrCat("[", absl::StrJoin(values.begin(), values.begin() + shown, ", "),
                      shown < static_cast<size_t>(values.size()) ? ", ...]" : "]");
}

}  // namespace upscaled
