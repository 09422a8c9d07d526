// Where a broker is.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace upscaled::server {

struct BrokerUrl {
  std::string host;  // of IPv6: in brackets
  std::string user, password;
  std::string prefix = "upscale";  // of all that the queue keeps there
  int port = 0;
  bool tls = false;
};

// SCHEME://[USER:PASSWORD@]HOST[:PORT][/PREFIX]. INVALID_ARGUMENT for another one, without the URL,
// since it may hold a password.
absl::StatusOr<BrokerUrl> ParseBrokerUrl(const std::string& url, absl::string_view scheme,
                                         int default_port);

}  // namespace upscaled::server
