// The target of a request line (RFC 9112, section 3.2).
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace upscaled::server {

struct HttpTarget {
  std::string path;            // percent-decoded; begins with '/', or is "*"
  std::string sent_path = {};  // the path, not decoded
  std::string query = {};      // after '?', not decoded
};

// Takes the origin form ("/path?query"), the absolute form ("http://host/path?query"; the host does
// not matter here) and "*". INVALID_ARGUMENT for others, for broken percent-encoding, for an
// encoded slash or NUL (a path would have two readings), and for a fragment.
absl::StatusOr<HttpTarget> ParseHttpTarget(std::string_view target);

}  // namespace upscaled::server
