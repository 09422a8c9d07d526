#include "server/rest/entity_tags.h"

#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/base/string_view.h"

namespace upscaled::server {
namespace {

constexpr size_t kMaxTags = 16;

}  // namespace

std::string QuotedTag(std::string_view name) { return absl::StrCat("\"", ToAbsl(name), "\""); }

std::vector<std::string> ParseTags(std::string_view field) {
  std::vector<std::string> names;
  // Tags of ours have no commas.
  for (absl::string_view tag : absl::StrSplit(ToAbsl(field), ',', absl::SkipWhitespace())) {
    if (names.size() == kMaxTags) break;
    tag = absl::StripAsciiWhitespace(tag);
    absl::ConsumePrefix(&tag, "W/");
    if (tag == "*" || (absl::ConsumePrefix(&tag, "\"") && absl::ConsumeSuffix(&tag, "\""))) {
      names.emplace_back(tag);
    }
  }
  return names;
}

}  // namespace upscaled::server
