#include "server/identity/api_key.h"

#include <openssl/rand.h>
#include <openssl/sha.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"

namespace upscaled::server {
namespace {

constexpr std::string_view kPrefix = "upk_";
constexpr size_t kRandomBytes = 32;
constexpr size_t kRandomCharacters = 43;  // base64url without padding
constexpr absl::string_view kBearer = "Bearer ";

bool IsBase64Url(char c) { return absl::ascii_isalnum(c) || c == '-' || c == '_'; }

std::string_view ToStd(absl::string_view text) { return {text.data(), text.size()}; }

}  // namespace

absl::StatusOr<std::string> NewSecret() {
  std::array<unsigned char, kRandomBytes> bytes;
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) {
    return absl::UnavailableError("the system has no random numbers");
  }
  return absl::WebSafeBase64Escape(
      absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

absl::StatusOr<std::string> NewApiKey() {
  ASSIGN_OR_RETURN(const std::string secret, NewSecret());
  return absl::StrCat(ToAbsl(kPrefix), secret);
}

KeyHash HashOf(std::string_view text) {
  KeyHash hash;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash.data());
  return hash;
}

bool IsApiKey(std::string_view text) { return text.starts_with(kPrefix); }

std::optional<KeyHash> HashApiKey(std::string_view key) {
  if (key.size() != kPrefix.size() + kRandomCharacters || !IsApiKey(key) ||
      !std::all_of(key.begin() + kPrefix.size(), key.end(), IsBase64Url)) {
    return std::nullopt;
  }
  return HashOf(key);
}

std::string FormatKeyHash(const KeyHash& hash) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(hash.data()), hash.size()));
}

std::optional<KeyHash> ParseKeyHash(std::string_view hex) {
  KeyHash hash;
  const auto is_digit = [](char c) { return absl::ascii_isxdigit(c) && !absl::ascii_isupper(c); };
  if (hex.size() != 2 * hash.size() || !std::all_of(hex.begin(), hex.end(), is_digit)) {
    return std::nullopt;
  }
  const std::string bytes = absl::HexStringToBytes(ToAbsl(hex));
  std::copy(bytes.begin(), bytes.end(), hash.begin());
  return hash;
}

std::string_view KeyOf(const Credentials& credentials) {
  absl::string_view authorization = ToAbsl(credentials.authorization);
  if (!absl::StartsWithIgnoreCase(authorization, kBearer)) return credentials.api_key;
  authorization.remove_prefix(kBearer.size());
  return ToStd(absl::StripAsciiWhitespace(authorization));
}

bool HasSeveralKeys(const Credentials& credentials) {
  const bool differ = !credentials.api_key.empty() && credentials.api_key != KeyOf(credentials);
  return credentials.repeats || differ;
}

}  // namespace upscaled::server
