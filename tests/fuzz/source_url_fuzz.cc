// URLs of sources, prefixes that allow them, and what curl takes both for. An empty line stands
// between prefix and URL.
#include <curl/curl.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "server/fetch/source_url.h"
#include "server/fetch/url_prefix.h"

namespace upscaled::server {
namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

struct CurlUrlDeleter {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
using CurlUrl = std::unique_ptr<CURLU, CurlUrlDeleter>;

std::string Part(const CurlUrl& url, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url.get(), part, &text, flags) != CURLUE_OK) return "";
  std::string copy(text);
  curl_free(text);
  return copy;
}

// The URL that we checked is what curl asks for.
void RequireCurlsAgreement(const SourceUrl& url) {
  const CurlUrl curl(curl_url());
  Require(curl_url_set(curl.get(), CURLUPART_URL, url.Text().c_str(),
                       CURLU_PATH_AS_IS | CURLU_DISALLOW_USER) == CURLUE_OK);
  const bool ipv6 = url.host.find(':') != std::string::npos;
  Require(Part(curl, CURLUPART_SCHEME) == (url.tls ? "https" : "http"));
  Require(Part(curl, CURLUPART_HOST) == (ipv6 ? "[" + url.host + "]" : url.host));
  Require(Part(curl, CURLUPART_PORT, CURLU_DEFAULT_PORT) == std::to_string(url.port));
  Require(Part(curl, CURLUPART_PATH) == url.path);
  Require(url.query.size() <= 1 || "?" + Part(curl, CURLUPART_QUERY) == url.query);
  Require(Part(curl, CURLUPART_USER).empty() && Part(curl, CURLUPART_FRAGMENT).empty());
}

void RequireSound(const SourceUrl& url) {
  Require(!url.host.empty() && url.port >= 1 && url.port <= 65535 && url.path.starts_with('/'));
  for (const char c : url.Text()) Require(c > ' ' && c <= '~' && c != '\\' && c != '#');
  Require((url.path + "/").find("/../") == std::string::npos);
  const auto again = ParseSourceUrl(url.Text());
  Require(again.ok() && again->Text() == url.Text());
  Require(UrlPrefix::Parse(url.Shown())->Covers(url));
  RequireCurlsAgreement(url);
}

}  // namespace
}  // namespace upscaled::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace upscaled::server;  // NOLINT
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(text.find("\n\n"), text.size());
  const auto prefix = UrlPrefix::Parse(text.substr(0, end));
  const auto url = ParseSourceUrl(text.substr(std::min(end + 2, text.size())));
  if (url.ok()) RequireSound(*url);
  if (!prefix.ok() || !url.ok() || !prefix->Covers(*url)) return 0;
  // The part before the path equals the prefix's.
  const auto root = UrlPrefix::Parse(url->Origin());
  Require(root.ok() && root->Covers(*url));
  const bool has_scheme = text.substr(0, end).find("://") != std::string_view::npos;
  Require(url->tls || has_scheme);
  return 0;
}
