// Signatures of URLs, in place of a key: a caller needs only the URL.
//
//   /v1/upscale?url=https%3A%2F%2F...&scale=2&key=2026-11&expires=1796000000&sig=SIGNATURE
//
// The signature covers the bytes from the path to before "&sig=", as they are sent. So each signed
// URL has one spelling, and a cache in front of the server holds one copy of its answer.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace upscaled::server {

inline constexpr size_t kMinUrlSecretBytes = 32;
inline constexpr size_t kUrlSignatureBytes = 43;  // in base64url without padding

// HMAC-SHA256 (RFC 2104) of `target`, a path and a query without signature, in base64url (RFC 4648,
// section 5) without padding. `secret` is used as it is written, not decoded.
std::string UrlSignature(std::string_view secret, std::string_view target);

}  // namespace upscaled::server
