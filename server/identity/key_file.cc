#include "server/identity/key_file.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "nlohmann/json.hpp"
#include "server/identity/issuer_keys.h"
#include "server/identity/strict_json.h"

namespace upscaled::server {
namespace {

using nlohmann::json;

constexpr size_t kMaxSanCharacters = 512;

// An entry's holder; `id_field` has the holder's mark.
absl::StatusOr<KeyEntry> ParseHolder(const json& entry, const char* id_field) {
  if (!entry.is_object()) return Wrong("must be an object");
  RETURN_IF_ERROR(OnlyHas(entry, {"name", id_field, "tenant", "roles", "not_before", "expires"}));
  KeyEntry holder;
  ASSIGN_OR_RETURN(holder.principal.name, NameOf(entry, "name"));
  ASSIGN_OR_RETURN(holder.principal.tenant, NameOf(entry, "tenant"));
  ASSIGN_OR_RETURN(holder.principal.roles, RolesOf(entry));
  ASSIGN_OR_RETURN(holder.not_before, TimeOf(entry, "not_before", holder.not_before));
  ASSIGN_OR_RETURN(holder.expires, TimeOf(entry, "expires", holder.expires));
  if (holder.not_before >= holder.expires) {
    return Wrong("\"expires\" must be later than \"not_before\"");
  }
  return holder;
}

absl::StatusOr<KeyHash> ParseHash(const json& entry) {
  ASSIGN_OR_RETURN(const std::string hex, TextOf(entry, "sha256"));
  // Never shown: a user may have put the key itself there.
  const std::optional<KeyHash> hash = ParseKeyHash(hex);
  if (!hash) {
    return Wrong("\"sha256\" must be 64 lower-case hexadecimal digits, see \"upscaled keys hash\"");
  }
  return *hash;
}

// As SocketStream writes it.
absl::StatusOr<std::string> ParseSan(const json& entry) {
  ASSIGN_OR_RETURN(const std::string san, TextOf(entry, "san"));
  const bool is_host = absl::StartsWith(san, "DNS:"), is_uri = absl::StartsWith(san, "URI:");
  if ((!is_host && !is_uri) || san.size() <= 4 || san.size() > kMaxSanCharacters ||
      absl::StrContains(san, '*') || !std::all_of(san.begin(), san.end(), absl::ascii_isgraph)) {
    return Wrong(absl::StrCat("\"san\" is ", Shown(san),
                              "; it must be like DNS:client.example.org or "
                              "URI:spiffe://example.org/client, without *"));
  }
  return is_host ? absl::StrCat("DNS:", absl::AsciiStrToLower(san.substr(4))) : san;
}

// "FILE: keys[3] (shop-backend): fault".
absl::Status InEntry(const std::string& where, const json& entry, std::string_view wrong) {
  const bool named = entry.is_object() && entry.contains("name") && entry["name"].is_string();
  return Wrong(absl::StrCat(
      where,
      named ? absl::StrCat(" (", Shown(entry["name"].get_ref<const std::string&>()), ")") : "",
      ": ", ToAbsl(wrong)));
}

// The list `part` of the file, if it is there. Its entries tell their holders by `id_field`, as
// `parse_id` reads it. Adds to `names`; each may be there once.
template <typename Table, typename ParseId>
absl::StatusOr<Table> ParseHolders(const json& root, const char* part, const std::string& file,
                                   const char* id_field, ParseId parse_id,
                                   std::set<std::string>& names) {
  Table table;
  if (!root.contains(part)) return table;
  const json& entries = root.at(part);
  if (!entries.is_array()) return Wrong(absl::StrCat(file, ": \"", part, "\" must be a list"));
  if (entries.size() > kMaxKeys) {
    return Wrong(absl::StrCat(file, ": has ", entries.size(), " ", part, "; at most ", kMaxKeys));
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    const json& entry = entries[i];
    const std::string where = absl::StrCat(file, ": ", part, "[", i, "]");
    absl::StatusOr<KeyEntry> holder = ParseHolder(entry, id_field);
    if (!holder.ok()) return InEntry(where, entry, std::string(holder.status().message()));
    const auto id = parse_id(entry);
    if (!id.ok()) return InEntry(where, entry, std::string(id.status().message()));
    if (!names.insert(holder->principal.name).second) {
      return InEntry(where, entry, "another entry has this name");
    }
    if (!table.emplace(*id, *std::move(holder)).second) {
      return InEntry(where, entry, absl::StrCat("another entry has this \"", id_field, "\""));
    }
  }
  return table;
}

template <typename Table>
void SetLimits(const TenantTable& tenants, Table& table) {
  for (auto& [id, holder] : table) {
    holder.principal.limits = LimitsOf(tenants, holder.principal.tenant);
  }
}

// A nonempty text; `otherwise` if the field is missing, unless `otherwise` is empty, too.
absl::StatusOr<std::string> RuleOf(const json& rules, const char* field,
                                   const std::string& otherwise = "") {
  if (!otherwise.empty() && !rules.contains(field)) return otherwise;
  ASSIGN_OR_RETURN(std::string text, TextOf(rules, field));
  if (text.empty()) return Wrong(absl::StrCat("\"", field, "\" is empty"));
  return text;
}

absl::StatusOr<TokenRules> ParseTokenRules(const json& entry) {
  if (!entry.is_object()) return Wrong("must be an object");
  RETURN_IF_ERROR(
      OnlyHas(entry, {"issuer", "audience", "key_set", "ca", "tenant_claim", "roles_claim"}));
  TokenRules rules;
  ASSIGN_OR_RETURN(rules.issuer, RuleOf(entry, "issuer"));
  ASSIGN_OR_RETURN(rules.audience, RuleOf(entry, "audience"));
  if (entry.contains("key_set")) {
    if (entry.contains("ca"))
      return Wrong("\"ca\" is for an issuer that is asked, without \"key_set\"");
    ASSIGN_OR_RETURN(rules.key_set, RuleOf(entry, "key_set"));
  } else {
    const absl::Status url = CheckIssuerUrl(rules.issuer);
    if (!url.ok()) return Wrong(absl::StrCat("without \"key_set\", \"issuer\" ", url.message()));
    if (entry.contains("ca")) {
      ASSIGN_OR_RETURN(rules.ca, RuleOf(entry, "ca"));
    }
  }
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
  if (!root->is_object() ||
      !(root->contains("keys") || root->contains("certificates") || root->contains("tokens"))) {
    return Wrong(
        absl::StrCat(file, ": must be an object with \"keys\", \"certificates\" or \"tokens\""));
  }
  if (const absl::Status parts = OnlyHas(*root, {"keys", "certificates", "tenants", "tokens"});
      !parts.ok()) {
    return Wrong(absl::StrCat(file, ": ", parts.message()));
  }
  KeyFile parsed;
  if (root->contains("tenants")) {
    ASSIGN_OR_RETURN(parsed.tenants, ParseTenants(root->at("tenants"), file));
  }
  std::set<std::string> names;
  ASSIGN_OR_RETURN(parsed.keys,
                   ParseHolders<KeyTable>(*root, "keys", file, "sha256", ParseHash, names));
  ASSIGN_OR_RETURN(parsed.certificates, ParseHolders<CertificateTable>(*root, "certificates", file,
                                                                       "san", ParseSan, names));
  SetLimits(parsed.tenants, parsed.keys);
  SetLimits(parsed.tenants, parsed.certificates);
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
