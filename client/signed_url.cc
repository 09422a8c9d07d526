#include "client/signed_url.h"

#include <curl/curl.h>

#include <algorithm>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/base/url_signature.h"

namespace upscaled::client {
namespace {

constexpr char kTargetPath[] = "/v1/upscale";

std::string Encoded(const std::string& text) {
  const std::unique_ptr<char, void (*)(void*)> encoded(
      curl_easy_escape(nullptr, text.data(), static_cast<int>(text.size())), curl_free);
  return encoded.get();
}

}  // namespace

absl::StatusOr<UrlSigningKey> ParseUrlSigningKey(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos || colon == 0 ||
      text.size() - colon - 1 < server::kMinUrlSecretBytes ||
      !std::ranges::all_of(text, absl::ascii_isgraph)) {
    return absl::InvalidArgumentError(
        absl::StrCat("no key for signed URLs, which is ID:SECRET with ", server::kMinUrlSecretBytes,
                     " characters or more behind the colon"));
  }
  return UrlSigningKey{.id = text.substr(0, colon), .secret = text.substr(colon + 1)};
}

std::string SignedUrl(const std::string& server, const std::string& source,
                      const HttpParameters& options, const UrlSigningKey& key,
                      std::optional<absl::Time> expires) {
  std::string target = absl::StrCat(kTargetPath, "?url=", Encoded(source));
  for (const auto& [name, value] : options)
    absl::StrAppend(&target, "&", name, "=", Encoded(value));
  absl::StrAppend(&target, "&key=", key.id);
  if (expires.has_value()) absl::StrAppend(&target, "&expires=", absl::ToUnixSeconds(*expires));
  return absl::StrCat(absl::StripSuffix(server, "/"), target,
                      "&sig=", server::UrlSignature(key.secret, target));
}

}  // namespace upscaled::client
