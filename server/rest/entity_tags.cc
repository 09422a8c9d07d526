#include "server/rest/entity_tags.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/base/string_view.h"
#include "server/base/error.h"

namespace upscaled::server {
namespace {

constexpr size_t kMaxTags = 16;

std::vector<std::string> Parse(std::string_view field, bool weak) {
  std::vector<std::string> names;
  // Tags of ours have no commas.
  for (absl::string_view tag : absl::StrSplit(ToAbsl(field), ',', absl::SkipWhitespace())) {
    if (names.size() == kMaxTags) break;
    tag = absl::StripAsciiWhitespace(tag);
    if (absl::ConsumePrefix(&tag, "W/") && !weak) continue;
    if (tag == "*" || (absl::ConsumePrefix(&tag, "\"") && absl::ConsumeSuffix(&tag, "\""))) {
      names.emplace_back(tag);
    }
  }
  return names;
}

}  // namespace

std::string QuotedTag(std::string_view name) { return absl::StrCat("\"", ToAbsl(name), "\""); }

std::vector<std::string> ParseTags(std::string_view field) { return Parse(field, /*weak=*/true); }

absl::Status CheckIfMatch(const HttpRequest& request, const std::string& name) {
  if (!request.FindField("If-Match").has_value()) return absl::OkStatus();
  const std::vector<std::string> tags = Parse(request.AllFields("If-Match"), /*weak=*/false);
  const bool matches = std::ranges::any_of(
      tags, [&](const std::string& tag) { return tag == "*" || (!name.empty() && tag == name); });
  if (matches) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kUnspecified,
                   name.empty() ? "If-Match needs the result's tag, which is known at its end only"
                                : absl::StrCat("If-Match names another result than ", name),
                   {{"field", "If-Match"}});
}

}  // namespace upscaled::server
