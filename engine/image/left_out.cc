#include "engine/image/left_out.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace upscaled {

void LeftOut::Add(std::string_view name) {
  constexpr size_t kMaxNames = 16;
  std::string text(name);
  std::ranges::replace_if(
      text, [](char c) { return !absl::ascii_isprint(c); }, '?');
  if (std::ranges::find(names_, text) != names_.end()) return;
  if (names_.size() == kMaxNames)
    has_more_ = true;
  else
    names_.push_back(std::move(text));
}

std::string LeftOut::Names() const {
  return absl::StrCat(absl::StrJoin(names_, ", "), has_more_ ? " and others" : "");
}

}  // namespace upscaled
