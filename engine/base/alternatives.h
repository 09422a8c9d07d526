// Lists of names in sentences.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace upscaled {

// "a", "a or b", "a, b or c"; of at least one name.
inline std::string Alternatives(std::vector<std::string> names) {
  if (names.size() == 1) return names[0];
  const std::string last = names.back();
  names.pop_back();
  return absl::StrCat(absl::StrJoin(names, ", "), " or ", last);
}

}  // namespace upscaled
