#include "server/identity/key_file.h"

#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "nlohmann/json.hpp"
#include "server/identity/strict_json.h"

namespace upscaled::server {
namespace {

using nlohmann::json;

absl::StatusOr<std::pair<KeyHash, KeyEntry>> ParseEntry(const json& entry) {
  if (!entry.is_object()) return Wrong("must be an object");
  RETURN_IF_ERROR(OnlyHas(entry, {"name", "sha256", "tenant", "roles", "not_before", "expires"}));
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

absl::StatusOr<KeyTable> ParseKeys(const json& entries, const std::string& file) {
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

}  // namespace

absl::StatusOr<KeyFile> ParseKeyFile(std::string_view text, const std::string& file) {
  if (text.size() > kMaxKeyFileBytes) {
    return Wrong(absl::StrCat(file, ": is larger than ", kMaxKeyFileBytes, " bytes"));
  }
  const absl::StatusOr<json> root = ParseStrictJson(text);
  if (!root.ok()) return Wrong(absl::StrCat(file, ": ", root.status().message()));
  if (!root->is_object() || !root->contains("keys") || !root->at("keys").is_array()) {
    return Wrong(absl::StrCat(file, ": must be an object with a list \"keys\""));
  }
  if (const absl::Status parts = OnlyHas(*root, {"keys", "tenants"}); !parts.ok()) {
    return Wrong(absl::StrCat(file, ": ", parts.message()));
  }
  KeyFile parsed;
  ASSIGN_OR_RETURN(parsed.keys, ParseKeys(root->at("keys"), file));
  if (root->contains("tenants")) {
    ASSIGN_OR_RETURN(parsed.tenants, ParseTenants(root->at("tenants"), file));
  }
  for (auto& [hash, key] : parsed.keys) {
    const auto limits = parsed.tenants.find(key.principal.tenant);
    if (limits != parsed.tenants.end()) key.principal.limits = limits->second;
  }
  return parsed;
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
