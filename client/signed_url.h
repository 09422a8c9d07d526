// URLs of GET /v1/upscale that carry a signature, for pages and caches: <img src>.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/http/http_target.h"

namespace upscaled::client {

// A key that signs, as "upscaled keys url" writes it: "ID:SECRET".
struct UrlSigningKey {
  std::string id, secret;
};
// INVALID_ARGUMENT, without the text: it may hold a secret.
absl::StatusOr<UrlSigningKey> ParseUrlSigningKey(const std::string& text);

// The URL on `server` ("https://cdn.example.com", perhaps with a proxy's prefix) of the image at
// `source`, upscaled with `options` (see ToParameters). Without `expires` it lasts as long as its
// key.
std::string SignedUrl(const std::string& server, const std::string& source,
                      const HttpParameters& options, const UrlSigningKey& key,
                      std::optional<absl::Time> expires);

}  // namespace upscaled::client
