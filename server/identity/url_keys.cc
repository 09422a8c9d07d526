#include "server/identity/url_keys.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "nlohmann/json.hpp"
#include "server/base/error.h"
#include "server/base/url_signature.h"
#include "server/identity/api_key.h"
#include "server/identity/strict_json.h"

namespace upscaled::server {
namespace {

using nlohmann::json;

constexpr size_t kMaxFileBytes = size_t{1} << 20;
constexpr size_t kMaxUrlKeys = 1000;
constexpr size_t kMaxSecretBytes = 256;
constexpr std::string_view kKey = "&key=", kExpires = "&expires=", kSignature = "&sig=";

absl::StatusOr<UrlKey> ParseKey(const json& entry) {
  if (!entry.is_object()) return Wrong("must be an object");
  RETURN_IF_ERROR(OnlyHas(entry, {"id", "secret", "tenant", "not_before", "expires"}));
  auto principal = std::make_shared<Principal>();
  ASSIGN_OR_RETURN(principal->name, NameOf(entry, "id"));
  ASSIGN_OR_RETURN(principal->tenant, NameOf(entry, "tenant"));
  principal->roles.Add(Role::kUpscale);
  UrlKey key;
  ASSIGN_OR_RETURN(key.secret, TextOf(entry, "secret"));
  if (key.secret.size() < kMinUrlSecretBytes || key.secret.size() > kMaxSecretBytes ||
      !std::ranges::all_of(key.secret, absl::ascii_isgraph)) {
    return Wrong(absl::StrCat("\"secret\" must be ", kMinUrlSecretBytes, " to ", kMaxSecretBytes,
                              " visible characters, see \"upscaled keys url\""));
  }
  ASSIGN_OR_RETURN(key.not_before, TimeOf(entry, "not_before", key.not_before));
  ASSIGN_OR_RETURN(key.expires, TimeOf(entry, "expires", key.expires));
  if (key.not_before >= key.expires) {
    return Wrong("\"expires\" must be later than \"not_before\"");
  }
  key.principal = std::move(principal);
  return key;
}

// The parts of a signed query, borrowed.
struct Parts {
  std::string_view covered;  // by the signature
  std::string_view options, key, signature;
  std::optional<std::string_view> expires;
};

// Removes the field `name` ("&sig=") from the end of `text`, and returns its value. None if the
// last field is another one.
std::optional<std::string_view> TakeLastField(std::string_view name, std::string_view& text) {
  const size_t begin = text.rfind('&');
  if (begin == std::string_view::npos || !text.substr(begin).starts_with(name)) return std::nullopt;
  const std::string_view value = text.substr(begin + name.size());
  text = text.substr(0, begin);
  return value;
}

std::optional<Parts> Split(std::string_view query) {
  const auto signature = TakeLastField(kSignature, query);
  if (!signature.has_value() || signature->size() != kUrlSignatureBytes) return std::nullopt;
  const std::string_view covered = query;
  const auto expires = TakeLastField(kExpires, query);
  const auto key = TakeLastField(kKey, query);
  if (!key.has_value()) return std::nullopt;
  return Parts{.covered = covered,
               .options = query,
               .key = *key,
               .signature = *signature,
               .expires = expires};
}

absl::Status Refused(std::string_view why, std::string_view field, std::string_view message) {
  return MakeError(absl::StatusCode::kPermissionDenied, ErrorReason::kPermissionDenied, message,
                   {{"signature", std::string(why)}, {"field", std::string(field)}});
}

absl::Status Malformed() {
  return Refused("malformed", "sig",
                 "the query of a signed URL must end with key=ID, expires=SECONDS if it ends, and "
                 "sig=SIGNATURE, in this order and each once");
}

}  // namespace

absl::StatusOr<UrlKeyTable> ParseUrlKeys(std::string_view text, const std::string& file) {
  const absl::StatusOr<json> root = ParseStrictJson(text);
  if (!root.ok()) return Wrong(absl::StrCat(file, ": ", root.status().message()));
  if (!root->is_object() || root->size() != 1 || !root->contains("keys") ||
      !root->at("keys").is_array()) {
    return Wrong(absl::StrCat(file, ": must be an object with the list \"keys\" and no more"));
  }
  const json& entries = root->at("keys");
  if (entries.empty() || entries.size() > kMaxUrlKeys) {
    return Wrong(
        absl::StrCat(file, ": has ", entries.size(), " keys; it must have 1 to ", kMaxUrlKeys));
  }
  UrlKeyTable keys;
  for (size_t i = 0; i < entries.size(); ++i) {
    absl::StatusOr<UrlKey> key = ParseKey(entries[i]);
    if (!key.ok()) return Wrong(absl::StrCat(file, ": keys[", i, "]: ", key.status().message()));
    const std::string id = key->principal->name;
    if (!keys.emplace(id, *std::move(key)).second) {
      return Wrong(absl::StrCat(file, ": keys[", i, "]: another entry has the id ", Shown(id)));
    }
  }
  return keys;
}

bool HasUrlSignature(std::string_view query) {
  for (const absl::string_view field : absl::StrSplit(ToAbsl(query), '&')) {
    if (field == "sig" || absl::StartsWith(field, "sig=")) return true;
  }
  return false;
}

absl::StatusOr<SignedUrl> CheckSignedUrl(const UrlKeyTable& keys, std::string_view path,
                                         std::string_view query, absl::Time now) {
  const std::optional<Parts> parts = Split(query);
  if (!parts.has_value()) return Malformed();
  const auto found = keys.find(parts->key);
  if (found == keys.end()) {
    return Refused("unknown_key", "key",
                   absl::StrCat("no key of this server has the id ", Shown(parts->key)));
  }
  const UrlKey& key = found->second;
  const std::string right =
      UrlSignature(key.secret, absl::StrCat(ToAbsl(path), "?", ToAbsl(parts->covered)));
  if (CRYPTO_memcmp(right.data(), parts->signature.data(), right.size()) != 0) {
    return Refused(
        "wrong", "sig",
        "the signature is not the one of this path and query; a signed URL is sent as it "
        "was signed, byte for byte");
  }
  SignedUrl url{.options = parts->options, .signer = key.principal, .expires = key.expires};
  if (parts->expires.has_value()) {
    int64_t seconds = 0;
    if (!absl::SimpleAtoi(ToAbsl(*parts->expires), &seconds)) return Malformed();
    url.expires = std::min(url.expires, absl::FromUnixSeconds(seconds));
  }
  if (now >= url.expires) {
    return Refused("expired", now >= key.expires ? "key" : "expires",
                   absl::StrCat("the signed URL ended at ", absl::FormatTime(url.expires)));
  }
  if (now < key.not_before) {
    return Refused(
        "early", "key",
        absl::StrCat("the signed URL is not valid before ", absl::FormatTime(key.not_before)));
  }
  return url;
}

absl::Status LacksUrlSignature() {
  return Refused(
      "missing", "sig",
      "GET takes signed URLs only, and this one has no sig; \"upscale sign\" makes them");
}

absl::StatusOr<std::unique_ptr<UrlKeys>> UrlKeys::Load(const std::filesystem::path& file) {
  std::unique_ptr<UrlKeys> keys(new UrlKeys(file));
  RETURN_IF_ERROR(keys->keys_.Load());
  return keys;
}

UrlKeys::UrlKeys(const std::filesystem::path& file)
    : keys_([file](FileReader& reader) -> absl::StatusOr<std::shared_ptr<const UrlKeyTable>> {
        ASSIGN_OR_RETURN(const std::string text, reader.Read(file, kMaxFileBytes));
        ASSIGN_OR_RETURN(UrlKeyTable keys, ParseUrlKeys(text, file.string()));
        return std::make_shared<const UrlKeyTable>(std::move(keys));
      }) {}

absl::StatusOr<NewUrlKey> MakeUrlKey(const std::string& id, const std::string& tenant) {
  RETURN_IF_ERROR(CheckName(id, "id"));
  RETURN_IF_ERROR(CheckName(tenant, "tenant"));
  ASSIGN_OR_RETURN(const std::string secret, NewSecret());
  return NewUrlKey{
      .line = absl::StrCat(id, ":", secret),
      .entry = nlohmann::ordered_json{{"id", id}, {"secret", secret}, {"tenant", tenant}}.dump(2)};
}

}  // namespace upscaled::server
