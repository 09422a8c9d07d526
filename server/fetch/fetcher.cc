#include "server/fetch/fetcher.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/base/curl_url.h"
#include "server/base/error.h"
#include "server/fetch/transfer.h"

namespace upscaled::server {
namespace {

constexpr size_t kMaxShownBytes = 256;
constexpr int kOk = 200;

bool IsRedirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

absl::Status Refused(const std::string& message) {
  return MakeError(absl::StatusCode::kPermissionDenied, ErrorReason::kSourceRefused, message,
                   {{"field", "url"}, {"limit", "fetch-allow"}});
}

absl::Status Failed(const std::string& message, const ErrorMetadata& metadata = {}) {
  return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kSourceFailed, message, metadata);
}

std::string Shown(const std::string& text) {
  return absl::StrCat("\"", text.substr(0, kMaxShownBytes),
                      text.size() > kMaxShownBytes ? "...\"" : "\"");
}

// Resolves `location`, a whole or relative URL, against `base`. curl follows RFC 3986. The result
// is parsed as strictly as any other URL.
absl::StatusOr<SourceUrl> Resolve(const SourceUrl& base, const std::string& location) {
  CurlUrl url;
  if (url.Read(base.Text()) != CURLUE_OK || url.Read(location) != CURLUE_OK) {
    return absl::InvalidArgumentError("must be a URL");
  }
  return ParseSourceUrl(url.Part(CURLUPART_URL));
}

// Returns an invalid URL without a possible signature or password.
std::string WithoutSecrets(std::string text) {
  text.resize(std::min(text.find_first_of("?#"), text.size()));
  const size_t at = text.rfind('@');
  return at == std::string::npos ? text : absl::StrCat("...", text.substr(at));
}

absl::StatusOr<SourceUrl> Redirected(const SourceUrl& from, const std::string& location) {
  absl::StatusOr<SourceUrl> url = Resolve(from, location);
  if (url.ok()) return url;
  return Refused(absl::StrCat(from.Shown(), " redirects to ", Shown(WithoutSecrets(location)),
                              ", which ", url.status().message()));
}

}  // namespace

Fetcher::Fetcher(FetchOptions options) : options_(std::move(options)), authorities_(options_.ca) {
  curl_global_init(CURL_GLOBAL_DEFAULT);
  if (MayFetch()) (void)authorities_.Get();  // now, and not by several requests at a time
}

Fetcher::~Fetcher() { curl_global_cleanup(); }

bool Fetcher::MayFetch() const {
  return !options_.allowed.empty() || !options_.allowed_private.empty();
}

bool Fetcher::Allows(const SourceUrl& url) const {
  return Covers(options_.allowed, url) || Covers(options_.allowed_private, url);
}

absl::StatusOr<SourceUrl> Fetcher::Check(const std::string& text) const {
  if (!MayFetch()) {
    return Refused(
        "url: this server fetches no images; its setting --fetch-allow says from where "
        "it may");
  }
  absl::StatusOr<SourceUrl> url = ParseSourceUrl(text);
  if (!url.ok()) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidOption,
        absl::StrCat("url is ", Shown(WithoutSecrets(text)), "; it ", url.status().message()),
        {{"field", "url"}});
  }
  if (Allows(*url)) return url;
  return Refused(absl::StrCat("url is ", Shown(url->Shown()),
                              ", which no prefix of this server's --fetch-allow covers"));
}

absl::StatusOr<FetchedSource> Fetcher::Fetch(const SourceUrl& first,
                                             Cancellation& cancellation) const {
  const FetchEnvironment environment{options_, lookups_, authorities_};
  auto transfer = std::make_unique<Transfer>(environment, cancellation);
  SourceUrl url = first;
  for (int redirects = 0; redirects <= kMaxRedirects; ++redirects) {
    RETURN_IF_ERROR(transfer->Start(url, Covers(options_.allowed_private, url)));
    const int status = transfer->status();
    if (status == kOk) {
      const int64_t bytes = transfer->total_bytes();
      return FetchedSource{.bytes = std::move(transfer), .total_bytes = bytes};
    }
    if (!IsRedirect(status) || transfer->location().empty()) {
      return Failed(absl::StrCat(url.Shown(), " answers with the status ", status),
                    {{"value", absl::StrCat(status)}});
    }
    ASSIGN_OR_RETURN(const SourceUrl next, Redirected(url, transfer->location()));
    if (!Allows(next)) {
      return Refused(absl::StrCat(url.Shown(), " redirects to ", Shown(next.Shown()),
                                  ", which no prefix of this server's --fetch-allow covers"));
    }
    url = next;
  }
  return Failed(absl::StrCat(first.Shown(), " redirects more than ", kMaxRedirects, " times"),
                {{"maximum", absl::StrCat(kMaxRedirects)}});
}

}  // namespace upscaled::server
