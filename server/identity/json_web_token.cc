#include "server/identity/json_web_token.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "server/identity/strict_json.h"

namespace upscaled::server {
namespace {

using nlohmann::json;

// How far the issuer's clock and ours may be apart.
constexpr absl::Duration kLeeway = absl::Seconds(30);
constexpr double kMaxSeconds = 253402300799;  // the end of the year 9999
constexpr size_t kMaxSubjectCharacters = 128;

absl::StatusOr<json> ParseObject(std::string_view text) {
  ASSIGN_OR_RETURN(json object, ParseStrictJson(text));
  if (!object.is_object()) return Wrong("is no object");
  return object;
}

absl::Status CheckType(const json& header) {
  if (!header.contains("typ")) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string type, TextOf(header, "typ"));
  for (const absl::string_view known : {"JWT", "at+jwt", "application/at+jwt"}) {
    if (absl::EqualsIgnoreCase(type, known)) return absl::OkStatus();
  }
  return Wrong("\"typ\" is neither JWT nor at+jwt");
}

// As long as it is a number of seconds since 1970.
absl::StatusOr<absl::Time> SecondsOf(const json& claims, const char* field) {
  const auto found = claims.find(field);
  if (found == claims.end()) return Wrong(absl::StrCat("has no \"", field, "\""));
  const double seconds = found->is_number() ? found->get<double>() : -1;
  if (!(seconds >= 0 && seconds <= kMaxSeconds)) {
    return Wrong(absl::StrCat("\"", field, "\" must be seconds since 1970"));
  }
  return absl::UnixEpoch() + absl::Seconds(seconds);
}

bool IsText(const json& value, const std::string& text) { return value == text; }

// One text, or a list with it.
bool IsFor(const json& claims, const std::string& audience) {
  const auto found = claims.find("aud");
  if (found == claims.end()) return false;
  if (!found->is_array()) return IsText(*found, audience);
  return std::any_of(found->begin(), found->end(),
                     [&](const json& value) { return IsText(value, audience); });
}

// Our roles in a list of texts, or in one text separated by spaces, as in "scope". Tokens have
// other services' fields, too.
RoleSet ClaimedRoles(const json& claims, const std::string& field) {
  RoleSet roles;
  const auto add = [&](std::string_view name) {
    if (const std::optional<Role> role = ParseRole(name)) roles.Add(*role);
  };
  const auto found = claims.find(field);
  if (found == claims.end()) return roles;
  if (found->is_string()) {
    for (const std::string& name :
         std::vector<std::string>(absl::StrSplit(found->get_ref<const std::string&>(), ' '))) {
      add(name);
    }
  }
  if (!found->is_array()) return roles;
  for (const json& name : *found) {
    if (name.is_string()) add(name.get_ref<const std::string&>());
  }
  return roles;
}

absl::StatusOr<std::string> SubjectOf(const json& claims) {
  ASSIGN_OR_RETURN(std::string subject, TextOf(claims, "sub"));
  if (subject.empty() || subject.size() > kMaxSubjectCharacters ||
      !std::all_of(subject.begin(), subject.end(), absl::ascii_isgraph)) {
    return Wrong(absl::StrCat("\"sub\" must be 1 to ", kMaxSubjectCharacters,
                              " characters of ASCII without spaces"));
  }
  return subject;
}

}  // namespace

absl::StatusOr<JsonWebToken> ParseToken(std::string_view text) {
  if (text.size() > kMaxTokenBytes) {
    return Wrong(absl::StrCat("has ", text.size(), " bytes; at most ", kMaxTokenBytes));
  }
  const std::vector<std::string> parts = absl::StrSplit(ToAbsl(text), absl::MaxSplits('.', 3));
  if (parts.size() != 3) return Wrong("has not three parts");
  const std::optional<std::string> header = DecodeBase64Url(parts[0]);
  std::optional<std::string> claims = DecodeBase64Url(parts[1]);
  std::optional<std::string> signature = DecodeBase64Url(parts[2]);
  if (!header || !claims || !signature) return Wrong("is no base64url");
  ASSIGN_OR_RETURN(const json fields, ParseObject(*header));
  ASSIGN_OR_RETURN(const std::string name, TextOf(fields, "alg"));
  const std::optional<TokenAlgorithm> algorithm = ParseTokenAlgorithm(name);
  if (!algorithm) return Wrong("\"alg\" is none of RS256, ES256 and EdDSA");
  if (fields.contains("crit")) return Wrong("\"crit\" asks for an unknown extension");
  RETURN_IF_ERROR(CheckType(fields));
  std::string key_id;
  if (fields.contains("kid")) {
    ASSIGN_OR_RETURN(key_id, TextOf(fields, "kid"));
    if (key_id.empty()) return Wrong("\"kid\" is empty");
  }
  return JsonWebToken{.algorithm = *algorithm,
                      .key_id = std::move(key_id),
                      .signed_part = text.substr(0, parts[0].size() + 1 + parts[1].size()),
                      .claims = *std::move(claims),
                      .signature = *std::move(signature)};
}

absl::StatusOr<KeyEntry> ReadClaims(std::string_view text, const TokenRules& rules) {
  ASSIGN_OR_RETURN(const json claims, ParseObject(text));
  ASSIGN_OR_RETURN(const std::string issuer, TextOf(claims, "iss"));
  if (issuer != rules.issuer) return Wrong("is of another issuer");
  if (!IsFor(claims, rules.audience)) return Wrong("is for another audience");
  KeyEntry entry;
  ASSIGN_OR_RETURN(const absl::Time expires, SecondsOf(claims, "exp"));
  entry.expires = expires + kLeeway;
  if (claims.contains("nbf")) {
    ASSIGN_OR_RETURN(const absl::Time not_before, SecondsOf(claims, "nbf"));
    entry.not_before = not_before - kLeeway;
  }
  ASSIGN_OR_RETURN(const std::string subject, SubjectOf(claims));
  entry.principal.name = absl::StrCat("token:", subject);
  ASSIGN_OR_RETURN(entry.principal.tenant, NameOf(claims, rules.tenant_claim.c_str()));
  entry.principal.roles = ClaimedRoles(claims, rules.roles_claim);
  return entry;
}

}  // namespace upscaled::server
