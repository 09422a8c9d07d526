// The digest that a request names for its body (RFC 9530).
#pragma once

#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/http/http_message.h"
#include "server/results/digest.h"

namespace upscaled::server {

// Returns the SHA-256 that Content-Digest or Repr-Digest name, the last one of each as RFC 8941 has
// it. nullopt: the request names no digest at all. A caller who names one relies on its comparison,
// so INVALID_ARGUMENT (kInvalidOption) for every digest that is not compared: a field that is
// malformed or without a SHA-256, two fields that differ, older fields (Digest, Content-MD5), and a
// digest behind the body.
absl::StatusOr<std::optional<Digest>> ReadContentDigest(const HttpRequest& request);

// INVALID_ARGUMENT (kInvalidOption) if the request names a digest, for bodies that are not one
// image. `body` names the kind: "a form".
absl::Status CheckNoContentDigest(const HttpRequest& request, std::string_view body);

}  // namespace upscaled::server
