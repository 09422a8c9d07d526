#include "client/worker/allowed_places.h"

#include <curl/curl.h>

#include <algorithm>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "client/http/http_target.h"
#include "client/worker/s3.h"
#include "engine/base/status_macros.h"
#include "server/fetch/source_url.h"
#include "server/jobs/job_place.h"

namespace upscaled::client {
namespace {

namespace fs = std::filesystem;

// Without user and password, since they say nothing of the place.
absl::StatusOr<server::SourceUrl> ParsePlace(const std::string& text) {
  const std::unique_ptr<CURLU, CurlDeleter> url(curl_url());
  char* bare = nullptr;
  if (url == nullptr || curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK ||
      curl_url_set(url.get(), CURLUPART_USER, nullptr, 0) != CURLUE_OK ||
      curl_url_set(url.get(), CURLUPART_PASSWORD, nullptr, 0) != CURLUE_OK ||
      curl_url_get(url.get(), CURLUPART_URL, &bare, 0) != CURLUE_OK) {
    return absl::InvalidArgumentError("must be a URL");
  }
  const std::unique_ptr<char, void (*)(void*)> owner(bare, curl_free);
  return server::ParseSourceUrl(bare);
}

bool IsBelow(const fs::path& path, const fs::path& folder) {
  const auto [in_folder, in_path] = std::ranges::mismatch(folder, path);
  return in_folder == folder.end() || (in_folder->empty() && std::next(in_folder) == folder.end());
}

}  // namespace

absl::StatusOr<fs::path> AllowedPlaces::Resolve(const fs::path& path) const {
  if (!folders.has_value()) return path;
  std::error_code error;
  fs::path real = fs::weakly_canonical(path, error);
  const auto covers = [&](const fs::path& folder) {
    std::error_code ignored;
    return IsBelow(real, fs::weakly_canonical(folder, ignored));
  };
  if (!error && std::ranges::any_of(*folders, covers)) return real;
  return absl::PermissionDeniedError(
      absl::StrCat(path.native(), " lies in no folder of this worker's --allow-paths"));
}

absl::Status AllowedPlaces::CheckBucket(const std::string& url) const {
  if (!buckets.has_value() || std::ranges::find(*buckets, BucketOf(url)) != buckets->end()) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(
      absl::StrCat(url, " is in no bucket of this worker's --allow-buckets"));
}

absl::StatusOr<bool> AllowedPlaces::MayBePrivate(const std::string& url) const {
  if (!urls.has_value() && private_urls.empty()) return false;
  const absl::StatusOr<server::SourceUrl> parsed = ParsePlace(url);
  if (!parsed.ok()) {
    return absl::PermissionDeniedError(
        absl::StrCat("the URL ", server::WithoutSecrets(url), " ", parsed.status().message()));
  }
  if (Covers(private_urls, *parsed)) return true;
  if (!urls.has_value() || Covers(*urls, *parsed)) return false;
  return absl::PermissionDeniedError(absl::StrCat(
      server::WithoutSecrets(url), " begins like no URL of this worker's --allow-urls"));
}

}  // namespace upscaled::client
