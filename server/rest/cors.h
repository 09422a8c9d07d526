// The pages of other origins with access to us (Fetch standard, "CORS protocol").
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/http/http_message.h"

namespace upscaled::server {

// Immutable.
class Cors {
 public:
  // Origins as browsers send them ("https://example.org"), or "*" for any; none: CORS is off.
  explicit Cors(std::vector<std::string> origins) : origins_(std::move(origins)) {}

  bool enabled() const { return !origins_.empty(); }
  // The fields for the browser in an answer to `request`; none when CORS is off.
  std::vector<HttpField> Fields(const HttpRequest& request) const;
  // The answer to a preflight request for a path of these methods.
  HttpResponse Preflight(const HttpRequest& request, const std::string& methods) const;

 private:
  bool Allows(std::string_view origin) const;

  const std::vector<std::string> origins_;
};

}  // namespace upscaled::server
