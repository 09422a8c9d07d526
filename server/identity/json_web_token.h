// An issuer's signed tokens: JSON Web Tokens (RFC 7519) in the compact form of RFC 7515.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/identity/key_file.h"
#include "server/identity/key_set.h"

namespace upscaled::server {

inline constexpr size_t kMaxTokenBytes = 8192;

// A token with unverified claims.
struct JsonWebToken {
  TokenAlgorithm algorithm;
  std::string key_id;            // "": it has none
  std::string_view signed_part;  // of the token's text
  std::string claims;            // JSON, for who has verified the signature
  std::string signature;
};

// INVALID_ARGUMENT: it is none, its signature is of no algorithm of ours (HS256 and "none" are no
// such), or its header has "crit" or another "typ" than JWT and at+jwt.
absl::StatusOr<JsonWebToken> ParseToken(std::string_view text);

// For whom verified claims stand, and when. INVALID_ARGUMENT: they are of another issuer, for
// another audience, without an end, or without a name or tenant fit for a log line.
absl::StatusOr<KeyEntry> ReadClaims(std::string_view claims, const TokenRules& rules);

}  // namespace upscaled::server
