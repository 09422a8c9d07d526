#include "server/fetch/url_prefix.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace upscaled::server {

absl::StatusOr<UrlPrefix> UrlPrefix::Parse(std::string_view text) {
  if (text.find_first_of("?#") != std::string_view::npos) {
    return absl::InvalidArgumentError("must end with a path, without '?' and '#'");
  }
  const bool has_scheme = text.find("://") != std::string_view::npos;
  ASSIGN_OR_RETURN(SourceUrl url,
                   ParseSourceUrl(has_scheme ? std::string(text) : "https://" + std::string(text)));
  return UrlPrefix(std::move(url));
}

bool UrlPrefix::Covers(const SourceUrl& url) const {
  if (url.tls != url_.tls || url.host != url_.host || url.port != url_.port) return false;
  if (!url.path.starts_with(url_.path)) return false;
  return url_.path.ends_with('/') || url.path.size() == url_.path.size() ||
         url.path[url_.path.size()] == '/';
}

bool Covers(const std::vector<UrlPrefix>& prefixes, const SourceUrl& url) {
  return std::ranges::any_of(prefixes, [&](const UrlPrefix& p) { return p.Covers(url); });
}

absl::StatusOr<std::vector<UrlPrefix>> ParseUrlPrefixes(const std::vector<std::string>& texts) {
  std::vector<UrlPrefix> prefixes;
  for (const std::string& text : texts) {
    absl::StatusOr<UrlPrefix> prefix = UrlPrefix::Parse(text);
    if (!prefix.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" ", prefix.status().message()));
    }
    prefixes.push_back(*std::move(prefix));
  }
  return prefixes;
}

}  // namespace upscaled::server
