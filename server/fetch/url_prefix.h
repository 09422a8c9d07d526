// An entry of the list of URLs for fetching.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/fetch/source_url.h"

namespace upscaled::server {

class UrlPrefix {
 public:
  // "https://images.example.com/public/"; without a scheme it is https, without a path all of the
  // host. INVALID_ARGUMENT says what the text should be ("must ...").
  static absl::StatusOr<UrlPrefix> Parse(std::string_view text);

  // Scheme, host and port are equal, and the path is the prefix's or goes on behind a slash:
  // "/public" covers "/public/a", not "/publicity". Paths are compared byte by byte.
  bool Covers(const SourceUrl& url) const;

 private:
  explicit UrlPrefix(SourceUrl url) : url_(std::move(url)) {}

  SourceUrl url_;
};

// Whether one of them covers the URL.
bool Covers(const std::vector<UrlPrefix>& prefixes, const SourceUrl& url);

// As Parse, naming the text.
absl::StatusOr<std::vector<UrlPrefix>> ParseUrlPrefixes(const std::vector<std::string>& texts);

}  // namespace upscaled::server
