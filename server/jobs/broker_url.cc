#include "server/jobs/broker_url.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/base/curl_url.h"

namespace upscaled::server {

absl::StatusOr<BrokerUrl> ParseBrokerUrl(const std::string& url, absl::string_view scheme,
                                         int default_port) {
  CurlUrl parsed;
  const bool is_url = parsed.Read(url, CURLU_NON_SUPPORT_SCHEME) == CURLUE_OK;
  const auto part = [&parsed](CURLUPart which) { return parsed.Part(which, CURLU_URLDECODE); };
  BrokerUrl broker{.host = part(CURLUPART_HOST),
                   .user = part(CURLUPART_USER),
                   .password = part(CURLUPART_PASSWORD),
                   .port = default_port};
  if (!is_url || broker.host.empty() || part(CURLUPART_SCHEME) != scheme) {
    return absl::InvalidArgumentError(absl::StrCat("the queue's URL is none of the form ", scheme,
                                                   "://[USER:PASSWORD@]HOST[:PORT][/PREFIX]"));
  }
  if (int port = 0; absl::SimpleAtoi(part(CURLUPART_PORT), &port)) {
    broker.port = port;
  }
  if (const std::string path = part(CURLUPART_PATH); path.size() > 1) {
    broker.prefix = path.substr(1);
  }
  return broker;
}

}  // namespace upscaled::server
