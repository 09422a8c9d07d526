// Callers' keys: "upk_" and 256 random bits in base64url.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace upscaled::server {

// SHA-256 of a whole key. A plain hash is enough, without salt or stretching: 256 random bits
// cannot be guessed or tabulated, and keys of any other form are refused.
using KeyHash = std::array<uint8_t, 32>;

// 256 random bits in base64url. UNAVAILABLE: the system has no random numbers.
absl::StatusOr<std::string> NewSecret();
// As NewSecret.
absl::StatusOr<std::string> NewApiKey();

KeyHash HashOf(std::string_view text);

// Whether it begins as keys do, and tokens do not.
bool IsApiKey(std::string_view text);
// nullopt: not of a key's form.
std::optional<KeyHash> HashApiKey(std::string_view key);

std::string FormatKeyHash(const KeyHash& hash);  // 64 lower-case hexadecimal digits
std::optional<KeyHash> ParseKeyHash(std::string_view hex);

// A caller's credentials: gRPC's metadata, or HTTP's fields; "" if missing.
struct Credentials {
  std::string_view authorization;  // "Bearer KEY", or a token in its place
  std::string_view api_key;        // the value of x-api-key
  // The names in a verified certificate (see PeerAddress); null: none.
  const std::vector<std::string>* certificate_names = nullptr;
  bool repeats = false;  // a field comes several times
};
// Returns the key or token of `authorization` if its scheme is Bearer, otherwise `api_key`.
std::string_view KeyOf(const Credentials& credentials);
// Whether it is unclear which one is the caller's: a proxy may have added its own to the client's.
bool HasSeveralKeys(const Credentials& credentials);

}  // namespace upscaled::server
