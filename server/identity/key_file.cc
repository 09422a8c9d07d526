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
  if (!entries.is_array()) return Wrong(absl::StrCat(file, ": \"keys\" must be a list"));
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

// A text that is not empty; `otherwise` where there is no such field, unless that is empty, too.
absl::StatusOr<std::string> RuleOf(const json& rules, const char* field,
                                   const std::string& otherwise = "") {
  if (!otherwise.empty() && !rules.contains(field)) return otherwise;
  ASSIGN_OR_RETURN(std::string text, TextOf(rules, field));
  if (text.empty()) return Wrong(absl::StrCat("\"", field, "\" is empty"));
  return text;
}

absl::StatusOr<TokenRules> ParseTokenRules(const json& entry) {
  if (!entry.is_object()) return Wrong("must be an object");
  RETURN_IF_ERROR(OnlyHas(entry, {"issuer", "audience", "key_set", "tenant_claim", "roles_claim"}));
  TokenRules rules;
  ASSIGN_OR_RETURN(rules.issuer, RuleOf(entry, "issuer"));
  ASSIGN_OR_RETURN(rules.audience, RuleOf(entry, "audience"));
  ASSIGN_OR_RETURN(rules.key_set, RuleOf(entry, "key_set"));
  ASSIGN_OR_RETURN(rules.tenant_claim, RuleOf(entry, "tenant_claim", "tenant"));
  ASSIGN_OR_RETURN(rules.roles_claim, RuleOf(entry, "roles_claim", "roles"));
  return rules;
}

}  // namespace

absl::StatusOr<KeyFile> ParseKeyFile(std::string_view text, const std::string& file) {
  if (text.size() > kMaxKeyFileBytes) {
    return Wrong(absl::StrCat(file, ": is larger than ", kMaxKeyFileBytes, " bytes"));
  }
  const absl::StatusOr<json> root = ParseStrictJson(text);
  if (!root.ok()) return Wrong(absl::StrCat(file, ": ", root.status().message()));
  if (!root->is_object() || !(root->contains("keys") || root->contains("tokens"))) {
    return Wrong(absl::StrCat(file, ": must be an object with \"keys\" or \"tokens\""));
  }
  if (const absl::Status parts = OnlyHas(*root, {"keys", "tenants", "tokens"}); !parts.ok()) {
    return Wrong(absl::StrCat(file, ": ", parts.message()));
  }
  KeyFile parsed;
  if (root->contains("tenants")) {
    ASSIGN_OR_RETURN(parsed.tenants, ParseTenants(root->at("tenants"), file));
  }
  if (root->contains("keys")) {
    ASSIGN_OR_RETURN(parsed.keys, ParseKeys(root->at("keys"), file));
  }
  for (auto& [hash, key] : parsed.keys) {
    key.principal.limits = LimitsOf(parsed.tenants, key.principal.tenant);
  }
  if (root->contains("tokens")) {
    absl::StatusOr<TokenRules> rules = ParseTokenRules(root->at("tokens"));
    if (!rules.ok()) return Wrong(absl::StrCat(file, ": tokens: ", rules.status().message()));
    parsed.tokens = *std::move(rules);
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
