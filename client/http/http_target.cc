#include "client/http/http_target.h"

#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"

namespace upscaled::client {
namespace {

constexpr long kConnectTimeoutMs = 20'000;

using CurlUrl = std::unique_ptr<CURLU, CurlDeleter>;

// "" without one.
std::string Part(CURLU* url, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, flags) != CURLUE_OK) return "";
  std::string copy = text;
  curl_free(text);
  return copy;
}

absl::Status Invalid(const std::string& server, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("server '", server, "' is no URL such as http://localhost:8000: ", why));
}

}  // namespace

bool IsHttpUrl(absl::string_view server) {
  return absl::StartsWithIgnoreCase(server, "http://") ||
         absl::StartsWithIgnoreCase(server, "https://");
}

absl::StatusOr<HttpTarget> HttpTarget::Create(const std::string& server,
                                              const std::optional<TlsOptions>& tls,
                                              const std::string& api_key) {
  static const CURLcode initialized = curl_global_init(CURL_GLOBAL_DEFAULT);
  const CurlUrl url(curl_url());
  if (initialized != CURLE_OK || url == nullptr) return absl::InternalError("cannot use libcurl");
  if (!IsHttpUrl(server)) return Invalid(server, "it begins with neither http:// nor https://");
  if (const CURLUcode code = curl_url_set(url.get(), CURLUPART_URL, server.c_str(), 0);
      code != CURLUE_OK) {
    return Invalid(server, curl_url_strerror(code));
  }
  for (const CURLUPart part : {CURLUPART_QUERY, CURLUPART_FRAGMENT, CURLUPART_USER}) {
    if (!Part(url.get(), part).empty()) {
      return Invalid(server, "it may have host, port and path only");
    }
  }
  HttpTarget target;
  target.server_ = std::string(absl::StripSuffix(server, "/"));
  target.api_key_ = api_key;
  if (!tls.has_value()) return target;
  if (Part(url.get(), CURLUPART_SCHEME) != "https") {
    return Invalid(server, "TLS needs https://");
  }
  RETURN_IF_ERROR(target.UseTls(*tls, url.get()));
  return target;
}

absl::Status HttpTarget::UseTls(const TlsOptions& tls, CURLU* url) {
  if (tls.cert_file.empty() != tls.key_file.empty()) {
    return absl::InvalidArgumentError("a TLS certificate needs its key, and a key its certificate");
  }
  for (const std::string& file : {tls.ca_file, tls.cert_file, tls.key_file}) {
    if (!file.empty() && access(file.c_str(), R_OK) != 0) {
      return absl::NotFoundError(absl::StrCat("cannot read the TLS file ", file));
    }
  }
  tls_ = tls;
  if (tls.server_name.empty()) return absl::OkStatus();
  const std::string host = Part(url, CURLUPART_HOST);
  const std::string port = Part(url, CURLUPART_PORT, CURLU_DEFAULT_PORT);
  connect_to_.reset(
      curl_slist_append(nullptr, absl::StrCat(tls.server_name, "::", host, ":", port).c_str()),
      CurlDeleter());
  curl_url_set(url, CURLUPART_HOST, tls.server_name.c_str(), 0);
  server_ = std::string(absl::StripSuffix(Part(url, CURLUPART_URL), "/"));
  return absl::OkStatus();
}

void HttpTarget::Apply(CURL* easy, absl::string_view path, const HttpParameters& parameters) const {
  const CurlUrl url(curl_url());
  curl_url_set(url.get(), CURLUPART_URL, absl::StrCat(server_, path).c_str(), 0);
  for (const auto& [name, value] : parameters) {
    curl_url_set(url.get(), CURLUPART_QUERY, absl::StrCat(name, "=", value).c_str(),
                 CURLU_APPENDQUERY | CURLU_URLENCODE);
  }
  curl_easy_setopt(easy, CURLOPT_URL, Part(url.get(), CURLUPART_URL).c_str());
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);  // what servers speak
  curl_easy_setopt(easy, CURLOPT_CONNECT_TO, connect_to_.get());
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, kConnectTimeoutMs);
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
#if CURL_AT_LEAST_VERSION(7, 87, 0)
  curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);  // who has given up does not wait for the DNS
#endif
  // As over gRPC: servers are near, and a web proxy of the environment would be in the way.
  curl_easy_setopt(easy, CURLOPT_PROXY, "");
  if (!api_key_.empty()) {
    curl_easy_setopt(easy, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    curl_easy_setopt(easy, CURLOPT_XOAUTH2_BEARER, api_key_.c_str());
  }
  const std::pair<CURLoption, const std::string&> files[] = {{CURLOPT_CAINFO, tls_.ca_file},
                                                             {CURLOPT_SSLCERT, tls_.cert_file},
                                                             {CURLOPT_SSLKEY, tls_.key_file}};
  // The file stands for all authorities, as over gRPC.
  if (!tls_.ca_file.empty()) curl_easy_setopt(easy, CURLOPT_CAPATH, nullptr);
  for (const auto& [option, file] : files) {
    if (!file.empty()) curl_easy_setopt(easy, option, file.c_str());
  }
}

}  // namespace upscaled::client
