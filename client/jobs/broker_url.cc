#include "client/jobs/broker_url.h"

#include <curl/curl.h>

#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/http/http_target.h"

namespace upscaled::client {
namespace {

// "" for what the URL does not say.
std::string PartOf(CURLU* url, CURLUPart which) {
  char* text = nullptr;
  if (curl_url_get(url, which, &text, CURLU_URLDECODE) != CURLUE_OK) return "";
  const std::unique_ptr<char, decltype(&curl_free)> owned(text, &curl_free);
  return text;
}

}  // namespace

absl::StatusOr<BrokerUrl> ParseBrokerUrl(const std::string& url, absl::string_view scheme,
                                         int default_port) {
  const std::unique_ptr<CURLU, CurlDeleter> parsed(curl_url());
  const bool is_url =
      curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), CURLU_NON_SUPPORT_SCHEME) == CURLUE_OK;
  BrokerUrl broker{.host = PartOf(parsed.get(), CURLUPART_HOST),
                   .user = PartOf(parsed.get(), CURLUPART_USER),
                   .password = PartOf(parsed.get(), CURLUPART_PASSWORD),
                   .port = default_port};
  if (!is_url || broker.host.empty() || PartOf(parsed.get(), CURLUPART_SCHEME) != scheme) {
    return absl::InvalidArgumentError(absl::StrCat("the queue's URL is none of the form ", scheme,
                                                   "://[USER:PASSWORD@]HOST[:PORT][/PREFIX]"));
  }
  if (int port = 0; absl::SimpleAtoi(PartOf(parsed.get(), CURLUPART_PORT), &port)) {
    broker.port = port;
  }
  if (const std::string path = PartOf(parsed.get(), CURLUPART_PATH); path.size() > 1) {
    broker.prefix = path.substr(1);
  }
  return broker;
}

}  // namespace upscaled::client
