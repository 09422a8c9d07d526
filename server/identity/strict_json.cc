#include "server/identity/strict_json.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "engine/base/unique_json.h"
#include "server/identity/api_key.h"

namespace upscaled::server {
namespace {

using nlohmann::json;

constexpr size_t kMaxNameCharacters = 64;
constexpr size_t kMaxShownCharacters = 100;

}  // namespace

absl::Status Wrong(std::string_view what) { return absl::InvalidArgumentError(ToAbsl(what)); }

std::string Shown(std::string_view text) {
  return absl::StrCat("\"", absl::CHexEscape(ToAbsl(text.substr(0, kMaxShownCharacters))), "\"");
}

absl::StatusOr<json> ParseStrictJson(std::string_view text) {
  try {  // nlohmann reports by exceptions
    UniqueJson parsed = ParseUniqueJson(text, /*throws=*/true);
    if (parsed.repeated_key) {
      return Wrong(absl::StrCat("the field ", Shown(*parsed.repeated_key), " is given twice"));
    }
    return std::move(parsed.document);
  } catch (const json::exception& error) {
    // The rest of the message repeats the text, perhaps with a key.
    const std::string_view what = error.what();
    return Wrong(absl::StrCat("is no JSON: ", ToAbsl(what.substr(0, what.find("; last read")))));
  }
}

absl::Status OnlyHas(const json& entry, std::initializer_list<std::string_view> fields) {
  for (const auto& [field, value] : entry.items()) {
    if (std::find(fields.begin(), fields.end(), field) == fields.end()) {
      return Wrong(absl::StrCat("has the unknown field ", Shown(field)));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckName(const std::string& name, const char* field) {
  const auto may_be = [](char c) {
    return absl::ascii_isalnum(c) || std::string_view("._@-").find(c) != std::string_view::npos;
  };
  if (HashApiKey(name)) return Wrong(absl::StrCat("\"", field, "\" is a key, which is secret"));
  if (!name.empty() && name.size() <= kMaxNameCharacters &&
      std::all_of(name.begin(), name.end(), may_be)) {
    return absl::OkStatus();
  }
  return Wrong(absl::StrCat("\"", field, "\" is ", Shown(name), "; it must be 1 to ",
                            kMaxNameCharacters, " letters, digits and . _ @ -"));
}

absl::StatusOr<std::string> TextOf(const json& entry, const char* field) {
  const auto found = entry.find(field);
  if (found == entry.end()) return Wrong(absl::StrCat("has no \"", field, "\""));
  if (!found->is_string()) return Wrong(absl::StrCat("\"", field, "\" must be a text"));
  return found->get<std::string>();
}

absl::StatusOr<std::string> NameOf(const json& entry, const char* field) {
  ASSIGN_OR_RETURN(std::string name, TextOf(entry, field));
  RETURN_IF_ERROR(CheckName(name, field));
  return name;
}

absl::StatusOr<RoleSet> RolesOf(const json& entry) {
  const auto found = entry.find("roles");
  if (found == entry.end() || !found->is_array() || found->empty()) {
    return Wrong("\"roles\" must be a list of at least one of read, upscale and admin");
  }
  RoleSet roles;
  for (const json& name : *found) {
    const std::optional<Role> role =
        name.is_string() ? ParseRole(name.get_ref<const std::string&>()) : std::nullopt;
    if (!role) {
      return Wrong(
          absl::StrCat("\"roles\" has ",
                       name.is_string() ? Shown(name.get_ref<const std::string&>()) : "no text",
                       "; there are read, upscale and admin"));
    }
    roles.Add(*role);
  }
  return roles;
}

absl::StatusOr<absl::Time> TimeOf(const json& entry, const char* field, absl::Time otherwise) {
  if (!entry.contains(field)) return otherwise;
  ASSIGN_OR_RETURN(const std::string text, TextOf(entry, field));
  absl::Time time;
  std::string error;
  if (absl::ParseTime(absl::RFC3339_full, text, &time, &error) && time > absl::InfinitePast() &&
      time < absl::InfiniteFuture()) {
    return time;
  }
  return Wrong(absl::StrCat("\"", field, "\" is ", Shown(text),
                            "; it must be a time like 2026-12-01T00:00:00Z"));
}

}  // namespace upscaled::server
