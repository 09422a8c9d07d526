#include "server/identity/key_file.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "nlohmann/json.hpp"

namespace upscaled::server {
namespace {

using nlohmann::json;

constexpr size_t kMaxNameCharacters = 64;
constexpr size_t kMaxShownCharacters = 100;

absl::Status Wrong(std::string_view what) { return absl::InvalidArgumentError(ToAbsl(what)); }

std::string Shown(std::string_view text) {
  return absl::StrCat("\"", absl::CHexEscape(ToAbsl(text.substr(0, kMaxShownCharacters))), "\"");
}

// JSON whose objects have no field twice, of which parsers keep one or the other.
absl::StatusOr<json> ParseStrictly(std::string_view text) {
  std::vector<std::set<std::string>> fields;  // of the objects that are open
  std::optional<std::string> twice;
  const auto look = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) fields.emplace_back();
    if (event == json::parse_event_t::object_end) fields.pop_back();
    if (event == json::parse_event_t::key && !fields.back().insert(parsed).second) {
      twice = parsed;
    }
    return true;
  };
  try {  // nlohmann reports by exceptions
    json root = json::parse(text, look);
    if (twice) return Wrong(absl::StrCat("the field ", Shown(*twice), " is given twice"));
    return root;
  } catch (const json::exception& error) {
    // What follows repeats the text, which may hold a key that somebody has put there.
    const std::string_view what = error.what();
    return Wrong(absl::StrCat("is no JSON: ", ToAbsl(what.substr(0, what.find("; last read")))));
  }
}

absl::StatusOr<std::string> TextOf(const json& entry, const char* field) {
  const auto found = entry.find(field);
  if (found == entry.end()) return Wrong(absl::StrCat("has no \"", field, "\""));
  if (!found->is_string()) return Wrong(absl::StrCat("\"", field, "\" must be a text"));
  return found->get<std::string>();
}

// Fit for a log line and a label.
absl::StatusOr<std::string> NameOf(const json& entry, const char* field) {
  ASSIGN_OR_RETURN(std::string name, TextOf(entry, field));
  const auto may_be = [](char c) {
    return absl::ascii_isalnum(c) || std::string_view("._@-").find(c) != std::string_view::npos;
  };
  if (HashApiKey(name)) return Wrong(absl::StrCat("\"", field, "\" is a key, which is secret"));
  if (!name.empty() && name.size() <= kMaxNameCharacters &&
      std::all_of(name.begin(), name.end(), may_be)) {
    return name;
  }
  return Wrong(absl::StrCat("\"", field, "\" is ", Shown(name), "; it must be 1 to ",
                            kMaxNameCharacters, " letters, digits and . _ @ -"));
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

absl::StatusOr<std::pair<KeyHash, KeyEntry>> ParseEntry(const json& entry) {
  if (!entry.is_object()) return Wrong("must be an object");
  constexpr std::string_view kFields[] = {"name",  "sha256",     "tenant",
                                          "roles", "not_before", "expires"};
  for (const auto& [field, value] : entry.items()) {
    if (std::find(std::begin(kFields), std::end(kFields), field) == std::end(kFields)) {
      return Wrong(absl::StrCat("has the unknown field ", Shown(field)));
    }
  }
  KeyEntry key;
  ASSIGN_OR_RETURN(key.principal.name, NameOf(entry, "name"));
  ASSIGN_OR_RETURN(key.principal.tenant, NameOf(entry, "tenant"));
  ASSIGN_OR_RETURN(key.principal.roles, RolesOf(entry));
  ASSIGN_OR_RETURN(key.not_before, TimeOf(entry, "not_before", key.not_before));
  ASSIGN_OR_RETURN(key.expires, TimeOf(entry, "expires", key.expires));
  if (key.not_before >= key.expires) return Wrong("\"expires\" must be later than \"not_before\"");
  ASSIGN_OR_RETURN(const std::string hex, TextOf(entry, "sha256"));
  // Never shown: somebody may have put the key itself there.
  const std::optional<KeyHash> hash = ParseKeyHash(hex);
  if (!hash) {
    return Wrong("\"sha256\" must be 64 lower-case hexadecimal digits, see \"upscaled keys hash\"");
  }
  return std::pair(*hash, std::move(key));
}

// "FILE: keys[3] (shop-backend): what is wrong".
absl::Status InEntry(const std::string& file, size_t index, const json& entry,
                     const absl::Status& wrong) {
  const bool named = entry.is_object() && entry.contains("name") && entry["name"].is_string();
  return Wrong(absl::StrCat(
      file, ": keys[", index, "]",
      named ? absl::StrCat(" (", Shown(entry["name"].get_ref<const std::string&>()), ")") : "",
      ": ", wrong.message()));
}

}  // namespace

absl::StatusOr<KeyTable> ParseKeyFile(std::string_view text, const std::string& file) {
  if (text.size() > kMaxKeyFileBytes) {
    return Wrong(absl::StrCat(file, ": is larger than ", kMaxKeyFileBytes, " bytes"));
  }
  const absl::StatusOr<json> root = ParseStrictly(text);
  if (!root.ok()) return Wrong(absl::StrCat(file, ": ", root.status().message()));
  if (!root->is_object() || root->size() != 1 || !root->contains("keys") ||
      !root->at("keys").is_array()) {
    return Wrong(absl::StrCat(file, ": must be an object with a list \"keys\" and nothing else"));
  }
  const json& entries = root->at("keys");
  if (entries.size() > kMaxKeys) {
    return Wrong(absl::StrCat(file, ": has ", entries.size(), " keys; at most ", kMaxKeys));
  }
  KeyTable table;
  std::set<std::string> names;
  for (size_t i = 0; i < entries.size(); ++i) {
    auto entry = ParseEntry(entries[i]);
    if (!entry.ok()) return InEntry(file, i, entries[i], entry.status());
    if (!names.insert(entry->second.principal.name).second) {
      return InEntry(file, i, entries[i], Wrong("another entry has this name"));
    }
    if (!table.insert(*std::move(entry)).second) {
      return InEntry(file, i, entries[i], Wrong("another entry has this \"sha256\""));
    }
  }
  return table;
}

std::string FormatKeyEntry(const Principal& principal, const KeyHash& hash) {
  nlohmann::ordered_json roles = nlohmann::ordered_json::array();
  for (const Role role : {Role::kRead, Role::kUpscale, Role::kAdmin}) {
    // The last one implies the others.
    if (principal.roles.Has(role)) roles = {std::string(RoleName(role))};
  }
  return nlohmann::ordered_json{{"name", principal.name},
                                {"sha256", FormatKeyHash(hash)},
                                {"tenant", principal.tenant},
                                {"roles", roles}}
      .dump(2);
}

}  // namespace upscaled::server
