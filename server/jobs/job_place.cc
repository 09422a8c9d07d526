#include "server/jobs/job_place.h"

#include "absl/strings/match.h"

namespace upscaled::server {

bool IsHttpUrl(absl::string_view place) {
  return absl::StartsWithIgnoreCase(place, "http://") ||
         absl::StartsWithIgnoreCase(place, "https://");
}

bool IsUrl(absl::string_view place) { return IsHttpUrl(place) || IsS3Url(place); }

bool IsS3Url(absl::string_view place) { return absl::StartsWith(place, "s3://"); }

std::string WithoutSecrets(const std::string& place) {
  const size_t scheme = place.find("://");
  if (scheme == std::string::npos || IsS3Url(place)) return place;
  std::string bare = place.substr(0, place.find_first_of("?#"));
  const size_t authority = scheme + 3;
  const size_t at = bare.substr(0, bare.find('/', authority)).rfind('@');
  return at == std::string::npos ? bare : bare.erase(authority, at + 1 - authority);
}

}  // namespace upscaled::server
