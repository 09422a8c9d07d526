// The limits of fetching: the allowed sources, and their times.
#pragma once

#include <filesystem>
#include <vector>

#include "absl/time/time.h"
#include "server/fetch/url_prefix.h"

namespace upscaled::server {

struct FetchOptions {
  std::vector<UrlPrefix> allowed;          // hosts with public addresses
  std::vector<UrlPrefix> allowed_private;  // hosts that may have private ones, too
  // Limits of the time for a source: for all of it, redirects included, and for its connection or
  // its next bytes.
  absl::Duration timeout = absl::Seconds(30), stall_timeout = absl::Seconds(10);
  std::filesystem::path ca;  // PEM certificates to trust; empty: the system's
};

}  // namespace upscaled::server
