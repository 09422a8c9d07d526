#include "server/rest/prefer.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace upscaled::server {
namespace {

// Up to the next comma outside of quoted strings; `list` goes on behind it.
absl::string_view TakePreference(absl::string_view& list) {
  bool quoted = false;
  size_t end = 0;
  for (; end < list.size() && (quoted || list[end] != ','); ++end) {
    if (list[end] == '"') quoted = !quoted;
    if (quoted && list[end] == '\\' && end + 1 < list.size()) ++end;
  }
  const absl::string_view preference = list.substr(0, end);
  list.remove_prefix(std::min(end + 1, list.size()));
  return preference;
}

bool ListsAsync(absl::string_view list) {
  while (!list.empty()) {
    const absl::string_view preference = TakePreference(list);
    // Its value and its parameters are ignored. None are defined.
    const absl::string_view name = preference.substr(0, preference.find_first_of("=;"));
    if (absl::EqualsIgnoreCase(absl::StripAsciiWhitespace(name), kRespondAsync)) return true;
  }
  return false;
}

}  // namespace

bool PrefersAsync(std::span<const HttpField> fields) {
  return std::ranges::any_of(fields, [](const HttpField& field) {
    return absl::EqualsIgnoreCase(field.name, "Prefer") && ListsAsync(field.value);
  });
}

}  // namespace upscaled::server
