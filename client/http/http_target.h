// A server of the HTTP service: its URLs, and how to reach it.
#pragma once

#include <curl/curl.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/channel.h"

namespace upscaled::client {

// CURL and CURLM are void: each has a deleter of its own.
struct CurlEasyDeleter {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct CurlMultiDeleter {
  void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
};
struct CurlDeleter {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

// Names and values of a query, not encoded yet.
using HttpParameters = std::vector<std::pair<std::string, std::string>>;

// "http://..." or "https://...".
bool IsHttpUrl(absl::string_view server);

// Thread safe.
class HttpTarget {
 public:
  // `server`: http:// or https://, a host, and perhaps a port and the path of a proxy's prefix.
  // INVALID_ARGUMENT for another URL; NOT_FOUND for unreadable TLS files. `api_key` goes along with
  // every request, unless it is empty.
  static absl::StatusOr<HttpTarget> Create(const std::string& server,
                                           const std::optional<TlsOptions>& tls,
                                           const std::string& api_key = "");

  // Without a slash at its end.
  const std::string& server() const { return server_; }
  // Has `easy` call `path`, with a slash at its beginning.
  void Apply(CURL* easy, absl::string_view path, const HttpParameters& parameters) const;

 private:
  HttpTarget() = default;
  absl::Status UseTls(const TlsOptions& tls, CURLU* url);

  std::string server_, api_key_;
  TlsOptions tls_;
  // For a certificate of another name: "NAME::HOST:PORT", as CURLOPT_CONNECT_TO has it.
  std::shared_ptr<curl_slist> connect_to_;
};

}  // namespace upscaled::client
